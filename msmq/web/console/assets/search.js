// Searches the rest of a queue for a message that matches, and shows how far it is; without this script the page
// offers the next part.  The address of the search is in data-search, that of the list of its result in data-list.
"use strict";

{
  const LOOKUP = /"lookup_id": ?(\d+)/; // Of 64 bits: more than a number has.

  async function* lines(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const parts = (rest + (value ?? "")).split("\n");
      rest = parts.pop();
      yield* parts;
      if (done) return;
    }
  }

  const search = async (box, controller) => {
    const status = box.querySelector("[role=status]");
    const bar = box.querySelector("progress");
    const answer = await fetch(box.dataset.search, { signal: controller.signal });
    if (!answer.ok) {
      status.textContent = (await answer.json()).detail;
      return;
    }
    for await (const line of lines(answer.body)) {
      const found = JSON.parse(line);
      if ("error" in found) {
        status.textContent = found.detail;
      } else if ("looked_at" in found) {
        if (bar) bar.value = Math.min(bar.max, Number(box.dataset.before) + found.looked_at);
        const what = `${found.looked_at.toLocaleString("en")} more messages looked at`;
        status.textContent = found.end === "queue" ? `${what}: none matches.` : `${what}…`;
      } else if (!("unreadable" in found)) {
        location.assign(`${box.dataset.list}&after=${BigInt(LOOKUP.exec(line)[1]) - 1n}`);
        return;
      }
    }
  };

  for (const box of document.querySelectorAll("[data-search]")) {
    const button = box.querySelector("button");
    const label = button.textContent;
    let controller = null;
    button.addEventListener("click", async () => {
      if (controller) {
        controller.abort();
        return;
      }
      controller = new AbortController();
      button.textContent = "Stop";
      try {
        await search(box, controller);
      } catch (error) {
        const text = controller.signal.aborted ? "Stopped." : "The connection was lost.";
        box.querySelector("[role=status]").textContent = text;
      }
      controller = null;
      button.textContent = label;
    });
    box.hidden = false;
  }
}
