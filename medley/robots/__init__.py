"""Acting in real time: limits on what is sent, deadlines, delays, arms that move whether or not anybody is ready."""
