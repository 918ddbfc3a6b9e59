from playwright.sync_api import Page


def test_trivial(page: Page) -> None:
    page.set_content("<button onclick='this.textContent=\"b\"'>a</button>")
    page.click("button")
    assert page.text_content("button") == "b"
