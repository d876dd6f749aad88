"use strict";
// The table of all questions. Text from data only ever becomes text nodes.

function el(tag, about, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (value !== null) made.setAttribute(name, value);
  }
  made.append(...inside.filter((one) => one !== null && one !== ""));
  return made;
}

const MARKS = ["✗", "✓", "?", "!", ""]; // by state: wrong, right, unreadable, failed, scored
const CLASSES = ["bad", "good", "odd", "odd", ""];
const WORDS = ["wrong", "right", "unreadable", "failed", "scored"];
const TURN_CLASSES = { wrong: "bad", right: "good", unreadable: "odd", none: "soft" };
const TURNED = { "to right": "turned to-right", "to wrong": "turned to-wrong", "to another wrong answer": "turned" };
const [RIGHT, WRONG, UNREADABLE, FAILED] = [1, 0, 2, 3];
const SPARE = 8; // rows drawn above and below those in view

function table(box) {
  const runs = JSON.parse(box.querySelector(".about").textContent);
  const questions = JSON.parse(box.querySelector(".data").textContent);
  const answers = (place) => questions[place].slice(5);
  const search = box.querySelector("input");
  const filter = box.querySelector("select");
  const status = box.querySelector("output");
  const grid = box.querySelector(".grid");
  const rowHeight = 3.2 * parseFloat(getComputedStyle(document.documentElement).fontSize);

  // Which questions are shown, in what order.

  const all = questions.map((_, place) => place);
  let order = all;
  let found = null; // by the search: a set of places
  let sorted = { column: 0, down: false };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const worth = ([state, , score]) => score ?? Number(state === RIGHT);
  const rank = (answer) => (!answer ? -3 : answer[0] === FAILED ? -2 : answer[0] === UNREADABLE ? -1 : worth(answer));
  const compare = (a, b) => {
    const { column } = sorted;
    if (column === 0) return a - b;
    if (column === 1) return collator.compare(questions[a][1], questions[b][1]);
    if (column === 2) return collator.compare(questions[a][3], questions[b][3]);
    const [one, other] = [questions[a][column + 2], questions[b][column + 2]];
    return rank(one) - rank(other) || collator.compare(one?.[1] ?? "", other?.[1] ?? "");
  };

  const some = (place, is) => answers(place).some((answer) => answer && is(answer));
  const filters = [["all questions", () => true]];
  if (runs.length > 1) {
    const differ = (place) => new Set(answers(place).filter(Boolean).map(worth)).size > 1;
    const alone = (run) => (place) => answers(place).every((a, other) => a && (a[0] === RIGHT) === (other === run));
    const shared = (place) => answers(place).every(Boolean);
    if (!all.every(shared)) filters.push(["asked in all runs", shared]);
    filters.push(["runs differ", differ]);
    runs.forEach((name, run) => filters.push([`only ${name} is right`, alone(run)]));
    filters.push(["all are wrong", (place) => !some(place, ([state]) => state !== WRONG)]);
  } else {
    filters.push(["right", (place) => some(place, ([state]) => state === RIGHT)]);
    filters.push(["wrong", (place) => some(place, ([state]) => state === WRONG)]);
  }
  filters.push(["unreadable or failed", (place) => some(place, ([state]) => state === UNREADABLE || state === FAILED)]);
  // The page opens on what tells the runs apart.
  filters.forEach(([name, is], number) => {
    const count = all.filter(is).length;
    const chosen = name === "runs differ" ? "" : null;
    if (count) filter.append(el("option", { value: number, selected: chosen }, `${name} (${count.toLocaleString("en")})`));
  });

  function arrange(note = "") {
    const [, is] = filters[filter.value || 0];
    order = all.filter((place) => (!found || found.has(place)) && is(place));
    order.sort((a, b) => (sorted.down ? -compare(a, b) : compare(a, b)) || a - b);
    status.textContent = `${order.length.toLocaleString("en")} of ${questions.length.toLocaleString("en")} questions${note}`;
    grid.setAttribute("aria-rowcount", order.length + 1);
    if (opened >= 0 && !order.includes(opened)) close();
    if (!order.includes(active)) active = order[0] ?? -1;
    drawn.forEach((row) => row.remove());
    drawn.clear();
    draw();
  }

  // Dialogues are unpacked when they are needed, a pack at a time.

  let packs = null;
  const unpacked = new Map();
  async function linesOf(pack) {
    packs ??= JSON.parse(box.querySelector(".dialogues").textContent);
    if (!unpacked.has(pack)) {
      const bytes = Uint8Array.from(atob(packs[pack][1]), (byte) => byte.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(pack, (await new Response(stream).text()).split("\n"));
    }
    return unpacked.get(pack);
  }
  async function dialoguesOf(place) {
    await linesOf(0);
    let pack = 0;
    while (place >= packs[pack][0]) place -= packs[pack++][0];
    return JSON.parse((await linesOf(pack))[place]);
  }

  // Every word must be in the question, its answers or its dialogues. The dialogues take a moment longer.

  const texts = [];
  const textOf = (place) => (texts[place] ??= JSON.stringify(questions[place]).toLowerCase());
  let searches = 0;
  async function look() {
    const mine = ++searches;
    const escaped = (word) => JSON.stringify(word).slice(1, -1);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean).map(escaped);
    const missing = (place, more) => words.some((word) => !textOf(place).includes(word) && !more.includes(word));
    found = words.length ? new Set(all.filter((place) => !missing(place, ""))) : null;
    grid.scrollTop = 0;
    arrange(words.length ? ", still searching the dialogues …" : "");
    if (!words.length) return;
    await linesOf(0);
    let place = 0;
    for (const pack of packs.keys()) {
      const lines = await linesOf(pack);
      if (mine !== searches) return;
      for (const line of lines) {
        if (!found.has(place) && !missing(place, line.toLowerCase())) found.add(place);
        place++;
      }
    }
    arrange();
  }

  // Only the rows in view are in the document, below the heads. One question is open at a time.

  const columns = ["#", "question", "right answer", ...runs];
  const heads = columns.map((name, column) => {
    const button = el("button", { type: "button", title: `sort by ${name}`, "data-number": column - 2 }, name);
    button.addEventListener("click", () => {
      sorted = { column, down: sorted.column === column && !sorted.down };
      heads.forEach((head, other) => head.setAttribute("aria-sort", other !== column ? "none" : sorted.down ? "descending" : "ascending"));
      arrange();
    });
    return el("div", { class: column > 2 ? "mark" : null, role: "columnheader", "aria-sort": column ? "none" : "ascending", "aria-colindex": column + 1 }, button);
  });
  const head = el("div", { role: "row", class: "row heads", "aria-rowindex": 1 }, ...heads);
  const body = el("div", { role: "rowgroup", class: "body" });
  grid.append(el("div", { role: "rowgroup", class: "top" }, head), body);
  grid.setAttribute("aria-colcount", columns.length);
  grid.style.setProperty("--columns", `3rem minmax(14rem, 3fr) minmax(6rem, 1fr) repeat(${runs.length}, minmax(5rem, 7rem))`);
  grid.style.setProperty("--least", `${24 + 5 * runs.length}rem`);
  grid.style.setProperty("--phone", `minmax(8rem, 1fr) repeat(${runs.length}, 1.5rem)`);
  grid.style.setProperty("--phone-least", `${8 + 1.5 * runs.length}rem`);

  let active = 0;
  let opened = -1; // these two are places in `questions`
  let panel = null;
  const drawn = new Map();
  const depth = () => (panel ? panel.offsetHeight : 0);
  const topOf = (line) => line * rowHeight + (panel && line > order.indexOf(opened) ? depth() : 0);

  /** The mark of an answer, and its text; which in a narrow column is only read out. */
  function answerIn(question, answer, narrow = false) {
    if (!answer) return [el("span", { class: "soft", title: "not asked" }, narrow ? "·" : "not asked")];
    const [state, text, score] = answer;
    const option = question[2].find(([label]) => label === text);
    const said = text ? (option ? `${option[0]}. ${option[1]}` : text) : WORDS[state];
    const grade = state === 4 && score !== null ? `${score} ` : "";
    const mark = el("span", { "aria-hidden": "true" }, `${MARKS[state]} `);
    const unseen = { class: "unseen" };
    const texts = narrow ? [el("span", unseen, said)] : [said];
    return [el("span", { class: CLASSES[state], title: narrow ? said : null }, mark, grade, ...texts, el("span", unseen, ` (${WORDS[state]})`))];
  }

  function rowOf(place, line) {
    const question = questions[place];
    const option = question[2].find(([label]) => label === question[3]);
    const cells = [
      [`${(place + 1).toLocaleString("en")}`],
      [question[1]],
      [option ? `${option[0]}. ${option[1]}` : question[3]],
      ...answers(place).map((answer) => answerIn(question, answer, true)),
    ].map((inside, column) => el("div", { class: column > 2 ? "mark" : column ? "two" : null, role: "gridcell", "aria-colindex": column + 1 }, ...inside));
    const row = el("div", { role: "row", class: "row", id: `${box.id}-${place}`, "aria-rowindex": line + 2, "aria-expanded": "false" }, ...cells);
    row.addEventListener("click", () => {
      active = place;
      toggle(place);
    });
    return row;
  }

  function draw() {
    const height = order.length * rowHeight + depth();
    body.style.height = `${height}px`;
    const at = order.indexOf(opened);
    const lineAt = (y) => Math.floor((at < 0 || y <= (at + 1) * rowHeight ? y : Math.max((at + 1) * rowHeight - 1, y - depth())) / rowHeight);
    const first = Math.max(0, lineAt(grid.scrollTop) - SPARE);
    const last = Math.min(order.length - 1, lineAt(grid.scrollTop + grid.clientHeight) + SPARE);
    const wanted = new Set(order.slice(first, last + 1));
    for (const [place, row] of drawn) {
      if (!wanted.has(place)) {
        row.remove();
        drawn.delete(place);
      }
    }
    for (let line = first; line <= last; line++) {
      const place = order[line];
      if (!drawn.has(place)) {
        drawn.set(place, rowOf(place, line));
        body.append(drawn.get(place));
      }
      const row = drawn.get(place);
      row.style.top = `${topOf(line)}px`;
      row.style.height = `${rowHeight}px`;
      row.setAttribute("aria-expanded", place === opened);
      row.classList.toggle("active", place === active);
    }
    if (panel) {
      panel.style.top = `${(at + 1) * rowHeight}px`;
      panel.style.left = `${grid.scrollLeft}px`;
      panel.style.width = `${grid.clientWidth}px`;
    }
    if (drawn.has(active)) grid.setAttribute("aria-activedescendant", drawn.get(active).id);
    else grid.removeAttribute("aria-activedescendant");
  }

  function close() {
    panel?.remove();
    [panel, opened] = [null, -1];
  }

  async function toggle(place) {
    const again = opened === place;
    close();
    if (!again && place >= 0) {
      opened = place;
      const cell = el("div", { role: "gridcell", "aria-colspan": columns.length });
      panel = el("div", { class: "panel", role: "row" }, cell);
      sizes.observe(panel);
      body.append(panel);
      cell.append(...question(place, await dialoguesOf(place)));
    }
    draw();
    if (opened === place) show(order.indexOf(place), true);
  }

  /** Scroll to a line; to the head of an open one, so that its dialogues are in view. */
  function show(line, whole = false) {
    const room = grid.clientHeight - head.offsetHeight;
    const [top, end] = [topOf(line), topOf(line) + rowHeight + (whole ? depth() : 0)];
    if (top < grid.scrollTop || end - top > room) grid.scrollTop = top;
    else if (end > grid.scrollTop + room) grid.scrollTop = end - room;
  }

  const sizes = new ResizeObserver(() => requestAnimationFrame(draw));
  sizes.observe(grid);

  // What an open question shows: its text and options, and side by side what each run said.

  function question(place, dialogues) {
    const [name, text, options, gold, about] = questions[place];
    const known = options.map(([label, said]) => {
      const right = label === gold;
      return el("li", {}, right ? el("strong", { class: "good" }, `${label}. ${said} ✓ right`) : `${label}. ${said}`);
    });
    return [
      el("p", { class: "soft" }, `Question ${name}`, about && ` · ${about}`),
      el("p", { class: "text asked" }, text),
      known.length ? el("ul", { class: "options" }, ...known) : el("p", {}, "Right is ", el("strong", { class: "good" }, gold || "unknown"), "."),
      el("div", { class: "sides" }, ...runs.map((run, number) => side(place, run, number, dialogues[number]))),
    ];
  }

  function side(place, run, number, dialogue) {
    const answer = answers(place)[number];
    const title = el("h3", {}, run);
    if (!dialogue) return el("section", { class: "side" }, title, el("p", { class: "soft" }, "This run was not asked."));
    const [decided, bill, error, turns, more] = dialogue;
    return el(
      "section",
      { class: "side", "aria-label": run },
      title,
      el("p", { class: "end" }, ...answerIn(questions[place], answer), decided && `, by ${decided}`),
      error && el("p", { class: "odd" }, error),
      el("p", { class: "soft" }, bill),
      el("ol", { class: "turns" }, ...turns.map(turn)),
      more ? el("p", { class: "soft" }, `[… ${more} more turns; results.jsonl has all]`) : null,
    );
  }

  function turn([agent, round, answer, state, text, turned, note, steps, more]) {
    const mark = state === "none" ? "" : `${MARKS[WORDS.indexOf(state)]} `;
    const step = ([thought, action, seen]) => el("li", {}, thought, " ", el("code", {}, action), " ", el("span", { class: "soft" }, seen));
    return el(
      "li",
      { class: TURNED[turned] || null },
      el("span", { class: "who" }, agent),
      el("span", { class: "soft" }, ` round ${round} · `),
      el("span", { class: TURN_CLASSES[state] }, mark + answer),
      note && el("p", { class: "note" }, turned ? "Turning point: " : "", note),
      steps.length ? el("ol", { class: "steps" }, ...steps.map(step)) : null,
      more ? el("p", { class: "soft" }, `[… ${more} more steps]`) : null,
      text && el("p", { class: "text" }, text),
    );
  }

  // What the user does.

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, 120);
  });
  filter.addEventListener("change", () => {
    active = -1;
    grid.scrollTop = 0;
    arrange();
  });
  let frame = 0;
  grid.addEventListener("scroll", () => (frame ||= requestAnimationFrame(() => (frame = 0, draw()))));

  function move(line) {
    if (!order.length) return;
    active = order[Math.max(0, Math.min(line, order.length - 1))];
    show(order.indexOf(active));
    draw();
  }
  grid.addEventListener("keydown", (event) => {
    const line = order.indexOf(active);
    const keys = {
      ArrowDown: () => move(line + 1),
      ArrowUp: () => move(line - 1),
      Home: () => move(0),
      End: () => move(order.length - 1),
      Enter: () => toggle(active),
      " ": () => toggle(active),
      Escape: () => (opened < 0 ? search.focus() : toggle(opened)),
    };
    const inside = event.target !== grid; // in a head or a link, which have keys of their own
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || (inside && event.key !== "Escape")) return;
    event.preventDefault();
    keys[event.key]();
    if (inside) grid.focus();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      grid.focus();
    } else if (event.key === "Escape" && search.value) {
      event.preventDefault();
      search.value = "";
      look();
    }
  });

  box.hidden = false;
  arrange();
  return search;
}

const searches = [...document.querySelectorAll(".questions")].map(table);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || !searches.length || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  searches[0].focus();
});
