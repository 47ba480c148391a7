"""A real browser without a window, for measurements and tests: Chromium, spoken to through a pipe.

`--remote-debugging-pipe` needs neither a port nor a library: messages of the DevTools protocol are JSON, each ended by
a zero byte, to the browser on descriptor 3 and from it on 4.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medley.errors import MedleyError

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
]


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One browser with a profile of its own, which is deleted at the end."""

    def __init__(self) -> None:
        program = find_browser()
        if program is None:
            raise MedleyError("There is no Chromium here (Debian or Ubuntu: apt install chromium).")
        self._profile = TemporaryDirectory(prefix="medley-browser-", ignore_cleanup_errors=True)
        theirs, self._out = os.pipe()
        self._in, their_out = os.pipe()
        # High numbers first: one of these pipes may itself be 3 or 4.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs, their_out)]

        def place() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [program, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=silent, stdout=silent, stderr=silent, preexec_fn=place, pass_fds=(3, 4)
        )
        for fd in (theirs, their_out, *high):
            os.close(fd)
        self._left = b""
        self._count = 0
        self._pages: dict[str, Page] = {}

    def open(self, url: str, width: int = 1100, height: int = 900, dark: bool = False, scripts: bool = True) -> Page:
        """A new tab, `width` wide, in which `url` has been loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, target, session, url)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.load()
        return page

    def call(self, method: str, session: str = "", timeout: float = 30.0, **parameters: Any) -> dict[str, Any]:
        """Ask the browser, and wait for its answer; what it tells meanwhile goes to the pages."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self._receive(until - time.monotonic())
            if answer is None:
                raise TimeoutError(f"{method} had no answer in {timeout} s")
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        """One message; None when there was none in time."""
        until = time.monotonic() + seconds
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._left += piece
        text, self._left = self._left.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        page = self._pages.get(message.get("sessionId", ""))
        if page and "method" in message:
            page.told(message["method"], message["params"])
        return message

    def wait(self, seconds: float) -> None:
        """Let the browser work, and hear what it tells."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._receive(left)

    def close(self) -> None:
        os.close(self._out)  # which ends it
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Page:
    """One tab. `errors` are whatever a console would show in red."""

    def __init__(self, browser: Browser, target: str, session: str, url: str) -> None:
        self.browser, self.target, self.session, self.url = browser, target, session, url
        self.errors: list[str] = []
        self._asked: dict[str, str] = {}

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    @property
    def requests(self) -> list[str]:
        """All addresses it asked for."""
        return list(self._asked.values())

    def told(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self._asked[parameters["requestId"]] = parameters["request"]["url"][:300]
        elif method == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
            del self._asked[parameters["requestId"]]  # the page's policy forbade it: nothing was asked
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str([each.get("value") for each in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])

    def load(self, url: str = "") -> None:
        self.url = url or self.url
        if failure := self.call("Page.navigate", url=self.url).get("errorText"):
            raise RuntimeError(f"{self.url}: {failure}")
        self.wait_for("document.readyState === 'complete'")

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def reload(self) -> None:
        self.call("Page.reload")
        self.wait_for("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """What a line of JavaScript gives; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 15.0) -> None:
        """Until `expression` is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.value(f"Boolean({expression})"):
                return
            self.browser.wait(0.02)
        raise TimeoutError(f"{expression} did not become true in {seconds} s; errors: {self.errors}")

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, brought into view."""
        find = f"document.querySelector({json.dumps(selector)})"
        script = f"""(() => {{ const e = {find}; if (!e) return null;
            e.scrollIntoView({{ block: "center" }}); const b = e.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]; }})()"""
        found = self.value(script)
        if found is None:
            raise LookupError(f"there is no {selector}")
        return found[0], found[1]

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str, count: int = 1) -> None:
        """As a person does: with the pointer, in the middle of what is there."""
        x, y = self.place(selector)
        self.move(x, y)
        for turn in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=turn)

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        parameters: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes[key]} | (
            {"text": text} if text else {}
        )
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
