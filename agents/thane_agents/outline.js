// The structure of the document, within bounds: how much of everything, and the outline of its elements.
(() => {
  const MAX_NODES = 2000, MAX_DEPTH = 24, MAX_LIST = 200;
  const short = (text, limit = 200) => (text || "").replace(/\s+/g, " ").trim().slice(0, limit);
  const list = (selector, read) => Array.from(document.querySelectorAll(selector)).slice(0, MAX_LIST).map(read);
  const counts = Object.create(null);
  const elements = document.getElementsByTagName("*");
  for (let i = 0; i < elements.length && i < 100000; i++) {
    const name = elements[i].localName.slice(0, 64);
    if (name in counts || Object.keys(counts).length < MAX_LIST) counts[name] = (counts[name] || 0) + 1;
  }
  let left = MAX_NODES, cut = false;
  const outline = (element, depth) => {
    left -= 1;
    const node = { tag: element.localName.slice(0, 64) };
    if (element.id) node.id = short(element.id, 80);
    if (element.classList.length) node.classes = Array.from(element.classList).slice(0, 8).map((name) => short(name, 80));
    const role = element.getAttribute("role");
    if (role) node.role = short(role, 40);
    const children = [];
    for (const child of element.children) {
      if (["script", "style", "noscript", "template"].includes(child.localName)) continue;
      if (left <= 0 || depth >= MAX_DEPTH) { cut = true; break; }
      children.push(outline(child, depth + 1));
    }
    if (children.length) node.children = children;
    return node;
  };
  return {
    title: short(document.title),
    language: short(document.documentElement.getAttribute("lang"), 20),
    elements: elements.length,
    tags: { ...counts },
    headings: list("h1,h2,h3,h4,h5,h6", (e) => ({ level: Number(e.localName[1]), text: short(e.textContent) })),
    links: list("a[href]", (e) => ({ href: short(e.href, 500), text: short(e.textContent, 100) })),
    forms: list("form", (e) => ({
      action: short(e.getAttribute("action"), 500), method: short(e.method, 10),
      fields: Array.from(e.elements).slice(0, 50).map((f) => ({ name: short(f.name, 80), type: short(f.type, 40) })),
    })),
    tables: list("table", (e) => ({ rows: e.rows.length, columns: e.rows.length ? e.rows[0].cells.length : 0 })),
    images: list("img", (e) => ({ src: short(e.getAttribute("src"), 500), alt: short(e.alt) })),
    outline: document.body ? outline(document.body, 0) : null,
    cut,
  };
})()
