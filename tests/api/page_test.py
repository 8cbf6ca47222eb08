#!/usr/bin/env python3
"""The page in a headless Chromium: a question goes out, the answer streams in.

    page_test.py PATH/TO/hadal [unittest arguments]

Skips itself, visibly, without chromium, chromedriver or the packages of requirements.txt.
"""
import shutil
import sys
import unittest

from live_server import LiveServer
from venv_python import use_venv

use_venv()
try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError as error:
    print(f"SKIPPED: {error}; see tests/api/requirements.txt")
    sys.exit(77)
for program in ("chromium", "chromedriver"):
    if shutil.which(program) is None:
        print(f"SKIPPED: {program} is not installed")
        sys.exit(77)

HADAL = ""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer(HADAL)
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        cls.browser = webdriver.Chrome(options=options, service=service)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.stop()

    def setUp(self):
        self.browser.get(f"http://127.0.0.1:{self.server.port}/")
        self.wait(lambda: self.text("#model") == "reef")

    def find(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector)[0].text

    def wait(self, condition):
        WebDriverWait(self.browser, 30).until(lambda _: condition())

    def ask(self, question):
        answers = len(self.find("#messages li.assistant"))
        self.find("#input")[0].send_keys(question + "\n")
        self.wait(lambda: len(self.find("#messages li.assistant")) > answers
                  and self.find("#stop")[0].get_attribute("disabled"))

    def test_a_conversation(self):
        self.ask("Name the capital of Kuwait.")
        self.assertEqual(self.text("#messages li.assistant"), "The capital of Kuwait is Kuwait City.")
        self.assertRegex(self.text("#figures"), r"prompt 10 tokens .* answer \d+ tokens .* tokens/s")
        self.ask("Name the capital of Kuwait.")
        self.assertEqual(len(self.find("#messages li")), 4)
        self.assertRegex(self.text("#figures"), r"\((16|32|48) cached\)")
        problems = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(problems, [])

    def test_text_is_never_html(self):
        self.ask("<b id=injected>x</b><img src=x onerror=alert(1)>")
        self.assertEqual(self.find("#injected"), [])
        self.assertIn("<b id=injected>", self.text("#messages li.user"))

    def test_stop_ends_an_answer(self):
        self.find("[name=max_tokens]")[0].send_keys("900")
        self.find("[name=temperature]")[0].send_keys("5")
        self.browser.execute_script("""
            new MutationObserver(() => {
              if (document.querySelector("#messages li.assistant:last-child > span")?.textContent)
                document.getElementById("stop").click();
            }).observe(document.getElementById("messages"), {childList: true, subtree: true});""")
        cancelled = 'hadal_requests_finished_total{reason="cancelled"}'
        for _ in range(10):  # an answer may end by itself before the click
            self.ask("count from 1 to 900")
            if self.server.wait_for(lambda metrics: metrics[cancelled] == 1, seconds=1) is not None:
                break
        self.assertEqual(self.server.metrics()[cancelled], 1)
        self.assertIn("(stopped)", self.text("#messages"))

    def test_errors_are_shown(self):
        self.find("[name=max_tokens]")[0].send_keys("99999")
        self.find("#input")[0].send_keys("x\n")
        self.wait(lambda: self.find("#messages li.error"))
        self.assertIn("maximum context length", self.text("#messages li.error"))


if __name__ == "__main__":
    HADAL = sys.argv.pop(1)
    unittest.main()
