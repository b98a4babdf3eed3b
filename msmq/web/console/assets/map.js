// Computes where the parts of the map of the enterprise are drawn; its elements and links are those of the page.
// The same enterprise always has the same map.  Without this script the page has the tables.
"use strict";

{
  const MARGIN = 70;
  const TICKS = 300;

  const draw = (svg) => {
    const elements = [...svg.querySelectorAll("[data-node]")].sort((one, other) => one.dataset.node - other.dataset.node);
    const nodes = elements.map((element) => ({ element, isSite: element.classList.contains("site") }));
    const lines = [...svg.querySelectorAll("[data-one]")];
    const edges = lines
      .filter((line) => !line.classList.contains("step"))
      .map((line) => ({
        source: Number(line.dataset.one),
        target: Number(line.dataset.other),
        length: "link" in line.dataset ? 210 : 70,
      }));
    d3.forceSimulation(nodes)
      .stop()
      .force("edges", d3.forceLink(edges).distance((edge) => edge.length).strength(0.7))
      .force("apart", d3.forceManyBody().strength((node) => (node.isSite ? -500 : -160)))
      .force("labels", d3.forceCollide(34))
      .force("x", d3.forceX().strength(0.03))
      .force("y", d3.forceY().strength(0.06))
      .tick(TICKS);
    for (const { element, x, y } of nodes) element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    for (const line of lines) {
      const [one, other] = [nodes[line.dataset.one], nodes[line.dataset.other]];
      for (const [name, value] of Object.entries({ x1: one.x, y1: one.y, x2: other.x, y2: other.y })) {
        line.setAttribute(name, value.toFixed(1));
      }
    }
    for (const text of svg.querySelectorAll("[data-between]")) {
      const [one, other] = text.dataset.between.split(" ").map((node) => nodes[node]);
      text.setAttribute("x", ((one.x + other.x) / 2).toFixed(1));
      text.setAttribute("y", ((one.y + other.y) / 2 - 4).toFixed(1));
    }
    const [left, right] = extent(nodes.map((node) => node.x));
    const [top, bottom] = extent(nodes.map((node) => node.y));
    const [width, height] = [right - left + 2 * MARGIN, bottom - top + 2 * MARGIN];
    svg.setAttribute("viewBox", `${left - MARGIN} ${top - MARGIN} ${width} ${height}`);
    // Of the same size on any screen, so that names can be read; the region around it scrolls.
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
  };

  const extent = (values) => [Math.min(...values), Math.max(...values)];

  const svg = document.querySelector(".map svg");
  if (svg !== null && svg.querySelector("[data-node]") !== null) {
    draw(svg);
    for (const element of document.querySelectorAll("[data-map]")) element.hidden = false;
    // The page was shorter when the browser went to the fragment of its address.
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
}
