#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The admin pages in a browser that clicks: Debian's Chromium, without a window.

admin_browser_test.py PROGRAM [arguments of unittest]

PROGRAM: http_admin_pages, whose test ServesABrowser serves sick fibers. WEFT_ADMIN_PICTURES=<folder>: pictures of each
page are put there, light, dark and as on a phone.
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
LIMIT = 60  # Seconds after which something that should have happened is a failure: only what hangs takes that long.
PAGES = ("overview", "fibers", "locks", "recorder", "topology", "metrics", "flags")
DESK = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


class Browser:
    """A page of it, by the DevTools protocol over a pipe: JSON objects, each with a zero behind it."""

    def __init__(self, chromium):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile.name}", "about:blank"]
        # It takes the descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", chromium, *options],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.profile.cleanup()

    def read(self):
        end = time.monotonic() + LIMIT
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
            part = os.read(self.into, 1 << 16) if ready else b""
            assert part, "the browser says nothing"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **arguments):
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)
            if answer.get("method") == "Page.javascriptDialogOpening":
                self.number += 1  # Its answer is skipped above.
                handled = {"id": -1, "method": "Page.handleJavaScriptDialog", "sessionId": self.session,
                           "params": {"accept": True, "promptText": self.prompt_text}}
                os.write(self.out, json.dumps(handled).encode() + b"\0")
                self.number -= 1

    prompt_text = ""

    def run(self, script):
        """The value of an expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{script}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, script):
        """Until the expression is true."""
        end = time.monotonic() + LIMIT
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"not within {LIMIT} s: {script}\n{self.text()}"
            time.sleep(0.02)
        return found

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? '(nothing)'")

    def click(self, selector, text=None):
        """The first element that fits and has this text."""
        fits = f"[...document.querySelectorAll({json.dumps(selector)})].find(e => {json.dumps(text)} === null || " \
               f"e.textContent.trim() === {json.dumps(text)})"
        self.wait(f"!!({fits})")
        at = self.run(f"(() => {{ const e = {fits}; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
                      " return {x: r.left + r.width / 2, y: r.top + r.height / 2}; })()")
        for what in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=what, button="left", clickCount=1, **at)

    def type_into(self, selector, text):
        self.click(selector)
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def picture(self, name):
        folder = os.environ.get("WEFT_ADMIN_PICTURES")
        if folder:
            data = self.call("Page.captureScreenshot", format="png")["data"]
            (pathlib.Path(folder) / f"{name}.png").write_bytes(base64.b64decode(data))


class AdminPages(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(
            [PROGRAM, "--gtest_filter=*ServesABrowser*"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"WEFT_ADMIN_ADDRESS": "127.0.0.1:0"})
        self.addCleanup(self.end_server)
        for line in self.server.stdout:
            if line.startswith("http://"):
                self.url = line.strip()
                break
        else:
            self.fail("the server does not start")
        self.browser = Browser(CHROMIUM)
        self.addCleanup(self.browser.close)
        self.browser.call("Emulation.setDeviceMetricsOverride", **DESK)
        self.browser.call("Page.navigate", url=self.url)
        self.browser.wait("document.querySelector('#title')?.textContent === 'sick'")

    def end_server(self):
        self.server.stdin.close()
        self.server.wait(LIMIT)
        self.server.stdout.close()

    def go(self, page):
        self.browser.click("nav a", page.title())
        self.browser.wait(f"document.querySelector('nav a[aria-current]').textContent === '{page.title()}'")

    def assert_nothing_went_wrong(self):
        for event in self.browser.events:
            method, details = event.get("method"), event.get("params", {})
            self.assertNotEqual(method, "Runtime.exceptionThrown", details)
            if method == "Log.entryAdded":
                self.assertNotEqual(details["entry"]["level"], "error", details)
            if method == "Network.requestWillBeSent":
                self.assertRegex(details["request"]["url"], f"^({self.url}|data:)")

    def test_each_page_shows_what_there_is(self):
        browser = self.browser
        browser.wait("document.querySelectorAll('.plot path').length === 8")
        browser.wait("[...document.querySelectorAll('.tile .value')].every(e => /[0-9]/.test(e.textContent))")
        self.assertEqual(browser.run("document.querySelectorAll('.panel table')[0].rows.length"), 3)  # Two groups.
        self.assertIn("group 1", browser.text())

        self.go("fibers")
        browser.wait("document.querySelectorAll('#fibers .group').length > 2")
        late = browser.run("[...document.querySelectorAll('#fibers .group')].find(e => e.innerText.includes('late 3')).innerText")
        self.assertRegex(late, r"^10\s+fibers\s+parked: mutex")
        self.assertRegex(late, r"for [\d.]+ m?s( to [\d.]+ m?s)?\s+weft::FiberMutex::")  # Not how Weft parks a fiber.

        self.go("locks")
        browser.wait("!!document.querySelector('.cycle')")
        self.assertRegex(browser.text(".cycle"),
                         r"A cycle: crossed 0 \(\d+\) waits for mutex 0x\w+, whose owner is crossed 1 \(\d+\), which waits "
                         r"for mutex 0x\w+, whose owner is crossed 0 \(\d+\). They wait for ever.")
        first = browser.text("#locks tbody tr")
        self.assertRegex(first, r"mutex 0x\w+\s+crossed 0 \(\d+\)\s+waits for mutex 0x\w+\s+11\s")

        self.go("topology")
        browser.wait(f"document.querySelectorAll('.cpu').length >= {len(os.sched_getaffinity(0))}")
        self.assertIn("FiberWorker_1_0", browser.text())

        self.go("metrics")
        browser.wait("document.querySelectorAll('#metrics details').length > 10")
        browser.type_into("#search", "how long ready")
        browser.wait("document.querySelectorAll('#metrics details').length === 1")
        browser.click("#metrics summary")
        browser.wait("document.querySelector('#metrics').innerText.includes('le=\"+Inf\"')")

        self.go("flags")
        browser.wait("document.querySelectorAll('#flags tbody tr').length > 20")
        self.assertIn("The scheduling policy", browser.text("#flags"))
        self.assert_nothing_went_wrong()

    def test_fibers_are_searched_and_grouped(self):
        browser = self.browser
        self.go("fibers")
        browser.type_into("#name", "sleep")
        browser.click("#look")
        browser.wait("/^5 of \\d+ fibers/.test(document.querySelector('.note').textContent)")
        browser.wait("document.querySelectorAll('#fibers .group').length === 1")
        self.assertIn("parked: sleep", browser.text("#fibers"))
        frames = "document.querySelectorAll('#fibers .frames li').length"
        before = browser.run(frames)
        if browser.run("!!document.querySelector('.more')"):
            browser.click(".more")
            browser.wait(f"{frames} > {before}")
        browser.click(".segmented button", "Each")
        browser.wait("document.querySelectorAll('#fibers tbody tr').length === 5")
        browser.click(".segmented button", "By reason")
        browser.wait("document.querySelectorAll('#fibers tbody tr').length === 1")
        browser.type_into("#name", "no, such [one")
        browser.click("#look")
        browser.wait("document.querySelector('#fibers').textContent === 'No fiber fits.'")
        browser.type_into("#name", "")
        browser.run("document.querySelector('#reason').value = 'mutex'")
        browser.run("document.querySelector('#reason').dispatchEvent(new Event('change'))")
        browser.wait("/^12 of \\d+ fibers/.test(document.querySelector('.note').textContent)")
        self.assert_nothing_went_wrong()

    def test_a_late_answer_replaces_no_later_one(self):
        browser = self.browser
        self.go("fibers")
        browser.wait("/of \\d+ fibers/.test(document.querySelector('.note').textContent)")
        # The answer about sleepers is held back; `came`: the page has it, and has done with it what it does.
        browser.run("""(() => {
            const ask = window.fetch;
            window.goOn = null;
            window.came = false;
            window.fetch = async path => {
              if (!path.includes('sleep')) return ask(path);
              await new Promise(done => { window.goOn = done; });
              const found = await (await ask(path)).json();
              return { ok: true, json: () => { setTimeout(() => { window.came = true; }); return found; } };
            };
          })()""")
        browser.type_into("#name", "sleep")
        browser.click("#look")
        browser.wait("window.goOn !== null")
        browser.type_into("#name", "late")
        browser.click("#look")
        browser.wait("/^10 of \\d+ fibers/.test(document.querySelector('.note').textContent)")
        browser.run("window.goOn()")
        browser.wait("window.came")
        self.assertRegex(browser.text(".note"), r"^10 of \d+ fibers")
        self.assert_nothing_went_wrong()

    def test_a_flag_is_set_and_a_bad_value_is_refused_in_one_line(self):
        browser = self.browser
        self.go("flags")
        browser.type_into("#search", "weft_admin_test")
        browser.wait("document.querySelectorAll('#flags tbody tr').length === 1")
        browser.prompt_text = "many"
        browser.click("#flags button", "Set")
        browser.wait("document.querySelector('.note').textContent === '--weft_admin_test=many: this is no valid int32 for it'")
        self.browser.events = [e for e in browser.events if e.get("method") != "Log.entryAdded"]  # Status 400, as is right.
        browser.prompt_text = "12"
        browser.click("#flags button", "Set")
        browser.wait("document.querySelector('#flags tr.changed')?.innerText.includes('default: 7')")
        self.assert_nothing_went_wrong()

    def test_what_was_recorded_is_kept_and_looked_at(self):
        browser = self.browser
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder.name)

        def kept(name):
            """The file of that name, when all of it is there."""
            end = time.monotonic() + LIMIT
            path = pathlib.Path(folder.name) / f"weft-{self.server.pid}.{name}"
            while not path.exists():
                self.assertLess(time.monotonic(), end, [*map(str, pathlib.Path(folder.name).iterdir())])
                browser.run("0")  # So that it goes on.
                time.sleep(0.02)
            return path.read_bytes()

        self.go("recorder")
        browser.wait("document.querySelector('.note').textContent === \"The recorder's level is sampled.\"")
        browser.click("#levels button", "full")
        browser.wait("document.querySelector('.note').textContent.startsWith(\"The recorder's level is full.\")")
        browser.run("document.querySelector('#span').value = '10000'")
        browser.run("document.querySelector('#span').dispatchEvent(new Event('change'))")
        browser.run("fetch('api/overview')")  # By a fiber that has run, and then ended or waited.
        browser.click("#files a", "JSON")
        events = json.loads(kept("trace.json"))["traceEvents"]
        self.assertTrue(any(event.get("name") == "thread_name" for event in events))
        browser.click("[data-profile=cpu] a", "folded")
        self.assertRegex(kept("cpu.folded").decode(), r"(?m)^[^;]+ \d+$")
        browser.click("[data-profile=waits] a", "pprof")
        self.assertIn(b"nanoseconds", kept("waits.pb"))
        browser.click("[data-profile=waits] button", "Look")
        browser.wait("document.querySelectorAll('#profile[data-profile=waits] tbody tr').length > 0")
        self.assertRegex(browser.text("#profile"), r"readable|ready")
        browser.click("[data-profile=contention] a", "folded")
        kept("contention.folded")
        browser.click("#levels button", "sampled")
        browser.wait("document.querySelector('#levels [aria-pressed=true]').textContent === 'sampled'")
        self.assert_nothing_went_wrong()

    def test_themes_widths_and_a_pause(self):
        browser = self.browser
        ground = "getComputedStyle(document.body).backgroundColor"
        light = browser.run(ground)
        browser.click("#theme", "Auto")
        self.assertEqual(browser.run(ground), light)
        browser.click("#theme", "Light")
        browser.wait(f"{ground} !== '{light}'")
        browser.click("#theme", "Dark")
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        browser.wait(f"{ground} !== '{light}'")
        for theme in ("light", "dark"):
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            for name, size in (("desk", DESK), ("phone", PHONE)):
                browser.call("Emulation.setDeviceMetricsOverride", **size)
                for page in PAGES:
                    self.go(page)
                    browser.wait("document.querySelectorAll('.panel').length > 0")
                    time.sleep(float(os.environ.get("WEFT_ADMIN_PICTURES_AFTER", "0")))
                    browser.picture(f"{page}-{theme}-{name}")
                    with self.subTest(page=page, width=name):
                        self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), size["width"])
        browser.click("#live", "Live")
        browser.wait("document.querySelector('#live').textContent === 'Paused'")
        self.assert_nothing_went_wrong()

    def test_a_process_that_has_gone_is_said(self):
        self.end_server()
        self.browser.wait("!document.querySelector('#lost').hidden")
        self.assertIn("the process does not answer", self.browser.text("#lost"))


if __name__ == "__main__":
    CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if CHROMIUM is None:
        sys.exit("chromium was not found: tools/install_dependencies.sh browser installs it (Debian: chromium)")
    unittest.main(verbosity=2)
