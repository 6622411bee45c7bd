"""A real browser, without a window, that loads a page at any width and says which of its texts are broken or clipped.

    with Chromium() as browser:                # one for a module: its start takes seconds
        browser.load(path, width=400)          # a file; ``dark=True`` for a reader who prefers that
        assert browser.torn() == []            # words whose letters stand on two lines
        assert browser.clipped() == []         # texts beyond the page's, their table cell's or their box's edge
        browser.shot(tmp_path / "page.png")    # to look at

It speaks Chromium's DevTools protocol over the two pipes of ``--remote-debugging-pipe``, and resolves no host name.
Nothing waits for time: each command has an answer, ``PATIENCE`` seconds are the limit of one that never comes.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, final

import pytest

CHROMIUM_HINT = "Chromium is not installed: `apt-get install chromium` (or your system's package)"
PATIENCE = 300.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
)  # fmt: skip
_AT_3_AND_4 = """import os, sys
read, write = (os.dup(int(number)) for number in sys.argv[1:3])
high = [os.dup(number) for number in (read, write)]
os.dup2(high[0], 3); os.dup2(high[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_FINDERS = """
(() => {
  const shown = element => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const texts = () => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      if (node.data.trim() && parent && !parent.closest("script, style, svg, noscript") && shown(parent))
        found.push(node);
    }
    return found;
  };
  const rects = (node, start, end) => {
    const range = document.createRange();
    range.setStart(node, start); range.setEnd(node, end);
    return [...range.getClientRects()].filter(rect => rect.width > 0.5);
  };
  const hidden = rect => rect.right <= 0 || rect.bottom + scrollY <= 0;
  const torn = selector => {
    const found = [];
    for (const node of texts()) {
      if (selector && !node.parentElement.closest(selector)) continue;
      for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
        if (/\\p{Script=Han}/u.test(word[0])) continue;  // which may be broken anywhere
        const lines = rects(node, word.index, word.index + word[0].length);
        if (lines.some(rect => rect.top > lines[0].bottom - 1)) found.push(word[0] + " in " + node.data.trim());
      }
    }
    return found;
  };
  const clipped = (selector, scrolled) => {
    const found = [], width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push("the page is wider than the window");
    for (const node of texts()) {
      if (selector && !node.parentElement.closest(selector)) continue;
      const words = [...node.data.matchAll(/\\S+/g)];  // a space at the end of a line may hang over the edge
      for (const rect of words.flatMap(word => rects(node, word.index, word.index + word[0].length))) {
        if (hidden(rect)) continue;
        let {left, right} = rect, why = "";
        for (let box = node.parentElement; box && box !== document.body && !why; box = box.parentElement) {
          const style = getComputedStyle(box), edge = box.getBoundingClientRect();
          const scrolls = scrolled && /auto|scroll/.test(style.overflowX);
          const start = scrolls ? edge.left - box.scrollLeft : edge.left;
          const end = scrolls ? start + Math.max(box.scrollWidth, edge.width) : edge.right;
          const holds = style.display === "table-cell" || style.overflowX !== "visible";
          if (holds && (left < start - 0.5 || right > end + 0.5)) why = box.tagName;
          if (scrolls) ({left, right} = edge);  // what lies around it has to hold the box, not the text
        }
        if (!why && (left < -0.5 || right > width + 0.5)) why = "window";
        if (why) { found.push(node.data.trim() + " (" + why + ")"); break; }
      }
    }
    return found;
  };
  return {torn, clipped};
})()
"""


def find_chromium() -> str | None:
    """The browser, where this machine has one that the tests can drive."""
    return None if sys.platform == "win32" else next(filter(None, map(shutil.which, _NAMES)), None)


@final
class Chromium:
    """One browser with one page; used from one thread. Skips the test where there is none."""

    def __init__(self) -> None:
        program = find_chromium()
        if program is None:
            pytest.skip(CHROMIUM_HINT)
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [sys.executable, "-c", _AT_3_AND_4, str(theirs_in), str(theirs_out), program, *_OPTIONS]
        with (self._folder / "stderr").open("wb") as said:
            self._process = subprocess.Popen(
                [*command, f"--user-data-dir={self._folder / 'profile'}", "about:blank"],
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._received = b""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._page("Page.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def load(self, path: Path, *, width: int, dark: bool = False) -> None:
        """Show a file of HTML in a window of ``width`` CSS pixels, until it, its styles and fonts are there."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._page("Emulation.setEmulatedMedia", features=[scheme])
        self._resize(width)
        self._page("Page.navigate", url=path.resolve().as_uri())
        self._message(lambda message: message.get("method") == "Page.loadEventFired")
        self._evaluate("document.fonts.ready.then(() => true)")
        assert self._evaluate("innerWidth") == width

    def resize(self, width: int) -> None:
        """Give the page that is shown a window of ``width`` CSS pixels; the next question lays it out."""
        self._resize(width)
        self._evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        assert self._evaluate("innerWidth") == width

    def torn(self, selector: str = "") -> list[str]:
        """Words of which one part stands below the other, each with its text; only those inside of ``selector``."""
        return list(self._evaluate(f"{_FINDERS}.torn({json.dumps(selector)})"))

    def clipped(self, selector: str = "", *, scrolled: bool = False) -> list[str]:
        """Texts that reach beyond the window or their cell or box; only those inside of ``selector``.

        With ``scrolled``, a text that its box can be scrolled to is not clipped.
        """
        return list(self._evaluate(f"{_FINDERS}.clipped({json.dumps(selector)}, {json.dumps(scrolled)})"))

    def text(self) -> str:
        """What the page shows, as text."""
        return str(self._evaluate("document.body.innerText"))

    def shot(self, path: Path) -> None:
        """Write the whole page, from top to end, as a PNG."""
        answer = self._page("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)  # it ends with its pipe
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _resize(self, width: int) -> None:
        self._page("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def _evaluate(self, expression: str) -> Any:
        answer = self._page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _page(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._call(method, session=self._session, **parameters)

    def _call(self, method: str, *, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self._out, rest) :]
        answer = self._message(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _message(self, wanted: Any) -> dict[str, Any]:
        """The next message for which ``wanted`` is true."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._received:
                line, _, self._received = self._received.partition(b"\0")
                message = json.loads(line)
                if wanted(message):
                    return dict(message)
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            got = os.read(self._in, 1 << 20) if ready else b""
            if not got:
                said = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"Chromium {'has ended' if ready else 'does not answer'}: {said[-3000:]}")
            self._received += got
