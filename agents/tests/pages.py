"""What the site has and what the models say."""

PAGES = {
    f"/{name}": (
        f"<!doctype html><html lang=en><head><title>Page {name}</title></head><body><h1>Harbours {name}</h1>"
        f"<p>This page describes lighthouses, harbours and sailing ships, number {name}.</p>"
        "<ul><li><a href=/one>one</a></li><li><a href=/two>two</a></li></ul></body></html>"
    )
    for name in ("one", "two", "three", "four")
}
REPLIES = {
    "text": "These pages describe harbours, lighthouses and sailing ships.",
    "second": "These pages describe lighthouses and sailing ships, with harbours.",
    "vision": "The screenshot shows a heading, a paragraph and a list of links.",
}
