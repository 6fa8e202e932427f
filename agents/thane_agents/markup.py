"""Title and visible text of HTML."""

from dataclasses import dataclass

from lxml import etree, html

SILENT = ("script", "style", "noscript", "template", "head", "svg")


@dataclass(frozen=True)
class Reading:
    title: str
    text: str


def reading(source: str, limit: int = 20_000) -> Reading:
    """Reads any text as HTML, however broken."""
    parser = html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        document = html.document_fromstring(source.encode("utf-8", errors="replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return Reading("", "")
    title = " ".join((document.findtext(".//title") or "").split())[:300]
    for element in list(document.iter(*SILENT)):
        if element.getparent() is not None:
            element.drop_tree()
    text = " ".join(" ".join(document.itertext()).split())
    return Reading(title, text[:limit])
