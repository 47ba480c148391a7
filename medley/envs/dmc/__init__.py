"""dm_control's suite from states and from pixels, and families of changed models made from it."""
