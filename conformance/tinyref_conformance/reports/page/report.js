"use strict";
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = JSON.parse(await new Response(unpacked).text());
  const STATUS = new Map(data.statuses.map((status, rank) => [status.name, { ...status, rank }]));
  const PAGE = 150;
  // Longer texts are folded.
  const FEW_LINES = 6;
  const filter = { text: "", status: "", level: "", rung: "", op: "", dtype: "" };
  const opened = new Set();
  let shown = PAGE;

  // Text goes in as text, never as markup: the page shows what devices and compilers said.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      if (name === "onclick") element.addEventListener("click", value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const number = (value) => Number(value).toLocaleString("en");
  function ulp(value) {
    if (value === null) return "";
    if (typeof value === "string") return value;
    if (value === 0) return "0";
    if (value >= 1e5) return value.toExponential(1);
    return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  }
  const worst = (counts) =>
    Object.keys(counts).reduce((a, b) => (STATUS.get(a).rank < STATUS.get(b).rank ? a : b));
  const total = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const good = (counts) =>
    Object.entries(counts).reduce((sum, [name, n]) => sum + (STATUS.get(name).good ? n : 0), 0);

  for (const row of data.rows) {
    row.worst = worst(row.counts);
    row.search = [row.id, row.sentence, row.op, row.dtype, row.rule, ...row.clauses,
      ...row.failures.map((index) => data.failures[index].message)].join("\n").toLowerCase();
  }

  function fits(row, except = "") {
    if (except !== "op" && filter.op && row.op !== filter.op) return false;
    if (except !== "op" && filter.dtype && row.dtype !== filter.dtype) return false;
    if (filter.level && row.level !== filter.level) return false;
    if (filter.rung !== "" && String(row.rung) !== filter.rung) return false;
    if (filter.status && !row.counts[filter.status]) return false;
    return filter.text.toLowerCase().split(/\s+/).every((word) => row.search.includes(word));
  }

  // The matrix of operations by dtype

  const dtypeOrder = new Map(data.dtypes.map((name, index) => [name, index]));
  function cellCounts(rows) {
    const cells = new Map();
    for (const row of rows) {
      const key = `${row.op}\n${row.dtype}`;
      const counts = cells.get(key) || {};
      for (const [name, n] of Object.entries(row.counts)) counts[name] = (counts[name] || 0) + n;
      cells.set(key, counts);
    }
    return cells;
  }

  function drawMatrix() {
    const rows = data.rows.filter((row) => row.dtype && fits(row, "op"));
    const cells = cellCounts(rows);
    const dtypes = [...new Set(rows.map((row) => row.dtype))];
    dtypes.sort((a, b) => (dtypeOrder.get(a) ?? 99) - (dtypeOrder.get(b) ?? 99));
    const ops = [...new Set(rows.map((row) => row.op))];
    const head = make("tr", {}, make("th", {}, ""), ...dtypes.map((name) => make("th", { scope: "col" }, name)));
    const body = ops.map((op) => make("tr", {}, make("th", { scope: "row" }, op),
      ...dtypes.map((dtype) => matrixCell(op, dtype, cells.get(`${op}\n${dtype}`)))));
    document.getElementById("matrix").replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
  }

  function matrixCell(op, dtype, counts) {
    if (!counts) return make("td", {});
    const status = STATUS.get(worst(counts));
    const all = total(counts), fine = good(counts);
    const text = fine === all || ["Suppressed", "NotRun"].includes(status.name) ? `${status.symbol} ${number(all)}` : `${status.symbol} ${number(fine)}/${number(all)}`;
    const words = Object.entries(counts).map(([name, n]) => `${number(n)} ${name}`).join(", ");
    const chosen = filter.op === op && filter.dtype === dtype;
    return make("td", {}, make("button", {
      class: `t-${status.tone}${chosen ? " chosen" : ""}`, title: `${op} ${dtype}: ${words}`,
      "aria-label": `${op} ${dtype}: ${words}`, "aria-pressed": String(chosen),
      onclick: () => {
        set(chosen ? { op: "", dtype: "" } : { op, dtype });
        document.getElementById("rows").scrollIntoView({ block: "start" });
      },
    }, text));
  }

  const asNumber = (value) => (value === "inf" || value === "nan" ? Infinity : value);
  // 0 at the left, then by powers of two up to `end`: both half a bit and garbage must show.
  const steps = (value) => Math.log2(1 + asNumber(value));
  const scale = (value, end = 11) => Math.min(steps(value), end) / end;

  // The table of rows

  function drawRows() {
    const rows = data.rows.filter((row) => fits(row));
    const key = SORTED[sorting.by];
    rows.sort((a, b) => sorting.sign * compare(key(a), key(b)) || a.number - b.number);
    // That the device opens is a row, and none of the cases that are counted.
    const asked = rows.filter((row) => row.id !== "device.open");
    const cases = asked.reduce((sum, row) => sum + total(row.counts), 0);
    document.getElementById("count").textContent =
      `${number(rows.length)} of ${number(data.rows.length)} rows, ${number(cases)} cases`;
    const visible = rows.slice(0, shown);
    document.getElementById("body").replaceChildren(...visible.flatMap(rowElements));
    document.getElementById("more").hidden = rows.length <= shown;
    return rows;
  }

  const SORTED = {
    status: (row) => STATUS.get(row.worst).rank, id: (row) => row.id, rung: (row) => row.rung,
    cases: (row) => total(row.counts), max: (row) => asNumber(row.max) ?? -1, p99: (row) => asNumber(row.p99) ?? -1,
    seconds: (row) => row.seconds, rule: (row) => row.rule,
  };
  const sorting = { by: "status", sign: 1 };
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  for (const head of document.querySelectorAll("[data-sort]"))
    head.firstElementChild.addEventListener("click", () => {
      // Numbers are asked for from the largest down.
      const first = head.classList.contains("number") ? -1 : 1;
      sorting.sign = sorting.by === head.dataset.sort ? -sorting.sign : first;
      sorting.by = head.dataset.sort;
      for (const other of document.querySelectorAll("[data-sort]"))
        other.setAttribute("aria-sort", other !== head ? "none" : sorting.sign > 0 ? "ascending" : "descending");
      drawRows();
    });

  function rowElements(row) {
    const status = STATUS.get(row.worst);
    const isOpen = opened.has(row.id);
    const opener = make("button", { class: "opener mono", "aria-expanded": String(isOpen), id: `row-${row.number}`,
      onclick: () => { if (isOpen) opened.delete(row.id); else opened.add(row.id); drawRows(); document.getElementById(`row-${row.number}`).focus(); },
    }, row.id);
    const all = total(row.counts), fine = good(row.counts);
    const line = make("tr", { class: isOpen ? "open" : null },
      make("td", {}, make("span", { class: `tag t-${status.tone}` }, `${status.symbol} ${status.name}`)),
      make("td", {}, opener, make("span", { class: "sentence" }, row.sentence)),
      make("td", { class: "small" }, data.rungs[row.rung]),
      make("td", { class: "number" }, fine === all ? number(all) : `${number(fine)} of ${number(all)}`),
      make("td", { class: "number" }, ulp(row.max), row.max === null ? null : bar(row)),
      make("td", { class: "number" }, ulp(row.p99)),
      make("td", { class: "number" }, `${row.seconds.toFixed(2)} s`),
      make("td", { class: "small" }, row.rule));
    return isOpen ? [line, make("tr", { class: "detail" }, make("td", { colspan: 8 }, ...detail(row)))] : [line];
  }

  function bar(row) {
    const over = row.limit !== null && asNumber(row.max) > row.limit;
    const full = make("i", {});
    full.style.width = `${Math.max(scale(row.max) * 100, 1)}%`;
    const found = make("span", { class: over ? "bar over" : "bar", "aria-hidden": "true" }, full);
    if (row.limit !== null) {
      const mark = make("b", {});
      mark.style.left = `${scale(row.limit) * 100}%`;
      found.append(mark);
    }
    return found;
  }

  function facts(pairs) {
    const list = make("dl", { class: "facts" });
    for (const [name, value] of pairs) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
    return list;
  }

  function detail(row) {
    const counts = Object.entries(row.counts).map(([name, n]) => `${number(n)} ${name}`).join(", ");
    const parts = [facts([
      ["Clauses", row.clauses.map((label) => `${label}: ${data.clauses[label] || ""}`).join("\n")],
      ["Error rule", row.rule], ["Cases", counts], ["Values compared", number(row.compared)],
      ["Worst input", row.input], ["Observed", row.observed], ["Time", `${row.seconds.toFixed(3)} s`],
      ["Why", row.why],
    ])];
    if (row.failures.length) parts.push(make("h3", {}, "Failing cases"));
    row.failures.forEach((index, order) => parts.push(caseElement(data.failures[index], order === 0)));
    if (row.hidden) parts.push(make("p", { class: "soft" }, `${number(row.hidden)} more failing cases are in report.json.`));
    return parts;
  }

  function caseElement(failure, open) {
    const status = STATUS.get(failure.status);
    const element = make("details", { class: "case", open },
      make("summary", {}, make("span", { class: `tag t-${status.tone}` }, `${status.symbol} ${status.name}`), " ",
        make("code", {}, failure.id)));
    let isFilled = false;
    const fill = () => {
      if (!isFilled && element.open) element.append(make("div", {}, ...caseParts(failure)));
      isFilled = isFilled || element.open;
    };
    element.addEventListener("toggle", fill);
    fill();
    return element;
  }

  function caseParts(failure) {
    const details = failure.details || {};
    const isLong = failure.message.includes("\n");
    const parts = [isLong ? make("pre", { tabindex: 0 }, failure.message) : make("p", { class: "message" }, failure.message)];
    if (details.difference) parts.push(make("p", { class: "difference" }, sentence(details.difference)));
    parts.push(facts([["Phase", failure.phase], ["Attempts", failure.attempts > 1 ? String(failure.attempts) : ""],
      ["Distance", failure.max === null ? "" : `${ulp(failure.max)} ULP`], ["Worst input", failure.input]]));
    const tables = (details.inputs || []).map(inputTable);
    if (details.expected && details.expected.length) tables.push(compared(details));
    if (tables.length) parts.push(make("div", { class: "beside" }, ...tables));
    parts.push(...copied("Run this case again", failure.repro));
    parts.push(...copied("Script", details.script));
    parts.push(...copied("Script without tinyref", details.tool_script));
    for (const [title, text] of [["Source", details.source], ["IR", details.ir], ["Log of the worker", details.log]])
      if (text) parts.push(...copied(title, text));
    return parts;
  }

  function sentence(words) {
    return `${words[0].toUpperCase()}${words.slice(1)}.`;
  }

  function table(title, head, lines) {
    return make("div", {}, make("h4", {}, title),
      make("div", { class: "values-scroll", tabindex: 0, role: "region", "aria-label": title },
        make("table", { class: "values mono" },
          make("thead", {}, make("tr", {}, ...head.map((text) => make("th", {}, text)))),
          make("tbody", {}, ...lines))));
  }

  function compared(details) {
    const lines = details.expected.map((expected, index) => {
      const actual = details.actual[index] ?? "", at = details.actual_bits[index] ?? "";
      const expectedBits = details.expected_bits[index] ?? "";
      const bad = at !== expectedBits || expected !== actual;
      return make("tr", { class: bad ? "bad" : null }, make("td", {}, `${bad ? "✗" : "✓"} ${Math.max(details.index, 0) + index}`),
        ...[expected, expectedBits, actual, at].map((text) => make("td", {}, text)));
    });
    return table("Expected and actual, from the first mismatch", ["element", "expected", "bits", "actual", "bits"], lines);
  }

  function inputTable(input) {
    const lines = input.values.map((value, index) => make("tr", {}, make("td", {}, value), make("td", {}, input.bits[index] ?? "")));
    return table(`Input ${input.name}: ${input.dtype} [${input.shape.join(", ")}]`, ["value", "bits"], lines);
  }

  function copied(title, text) {
    if (!text) return [];
    const note = make("span", { class: "copied", role: "status" });
    const block = make("pre", { tabindex: 0 }, text);
    const button = make("button", { class: "plain copy", type: "button", "aria-label": `Copy: ${title}`, onclick: () => copyText(text, block, note) }, "Copy");
    if (text.split("\n").length <= FEW_LINES)
      return [make("div", { class: "with-copy" }, make("h4", {}, title), button, note), block];
    return [make("details", { class: "text" }, make("summary", {}, title),
      make("div", { class: "with-copy" }, button, note), block)];
  }

  async function copyText(text, block, note) {
    try {
      await navigator.clipboard.writeText(text);
      note.textContent = "copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(block);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      note.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl+C";
    }
  }

  // Filters

  const form = document.getElementById("filters");
  const FIELDS = ["text", "status", "level", "rung", "op", "dtype"];
  function options(name, values) {
    form.elements[name].replaceChildren(make("option", { value: "" }, "all"),
      ...values.map(([value, label]) => make("option", { value }, label)));
  }
  const distinct = (key) => [...new Set(data.rows.map((row) => row[key]))].filter((value) => value !== "");
  options("status", data.statuses.filter((status) => data.rows.some((row) => row.counts[status.name])).map((status) => [status.name, `${status.symbol} ${status.name}`]));
  options("level", distinct("level").map((name) => [name, name]));
  options("rung", distinct("rung").sort((a, b) => a - b).map((rung) => [String(rung), `${rung} ${data.rungs[rung]}`]));
  options("op", distinct("op").sort().map((name) => [name, name]));
  options("dtype", distinct("dtype").sort((a, b) => (dtypeOrder.get(a) ?? 99) - (dtypeOrder.get(b) ?? 99)).map((name) => [name, name]));

  function set(changes) {
    Object.assign(filter, changes);
    shown = PAGE;
    draw();
  }

  function draw() {
    for (const name of FIELDS) if (form.elements[name].value !== filter[name]) form.elements[name].value = filter[name];
    for (const chip of document.querySelectorAll("[data-status]")) chip.setAttribute("aria-pressed", String(chip.dataset.status === filter.status));
    for (const rung of document.querySelectorAll("[data-rung]")) rung.setAttribute("aria-pressed", String(rung.dataset.rung === filter.rung));
    drawMatrix();
    drawRows();
    const hash = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
    try { history.replaceState(null, "", hash ? `#${hash}` : location.pathname); } catch { /* some viewers have no history */ }
  }

  let waiting = 0;
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    const { name, value } = event.target;
    waiting = setTimeout(() => set({ [name]: value }), name === "text" ? 120 : 0);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => set(Object.fromEntries(FIELDS.map((name) => [name, ""]))));
  document.getElementById("more").firstElementChild.addEventListener("click", () => { shown += PAGE; drawRows(); });
  const toRows = () => document.getElementById("rows").scrollIntoView({ block: "start" });
  for (const chip of document.querySelectorAll("[data-status]"))
    chip.addEventListener("click", () => { set({ status: filter.status === chip.dataset.status ? "" : chip.dataset.status }); toRows(); });
  for (const rung of document.querySelectorAll("[data-rung]"))
    rung.addEventListener("click", () => { set({ rung: filter.rung === rung.dataset.rung ? "" : rung.dataset.rung }); toRows(); });

  // The example of a group, with its values, source and script, as soon as it is looked at.
  const byId = new Map(data.failures.map((failure) => [failure.id, failure]));
  for (const group of document.querySelectorAll(".group")) {
    const example = group.querySelector("[data-example]");
    const failure = byId.get(example.dataset.example);
    const show = () => {
      if (failure && group.open && !example.dataset.shown) {
        example.replaceChildren(...caseParts(failure));
        example.dataset.shown = "yes";
      }
    };
    group.addEventListener("toggle", show);
    show();
  }

  // A link may carry filters and rows to open: report.html#dtype=int32&open=isa.binary.add.int32
  const expectedBits = new URLSearchParams(location.hash.slice(1));
  for (const name of FIELDS) if (expectedBits.has(name)) filter[name] = expectedBits.get(name);
  for (const id of expectedBits.getAll("open")) opened.add(id);
  draw();
  for (const link of document.querySelectorAll("[data-open]"))
    link.addEventListener("click", () => {
      opened.add(link.dataset.open);
      set({ ...Object.fromEntries(FIELDS.map((name) => [name, ""])), text: link.dataset.open });
      toRows();
    });
})();
