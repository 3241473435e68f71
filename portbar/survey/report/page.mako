<%doc>
The page of a report. Every text is escaped; only what is marked with `n` is markup: the plots, the style and the script, which
are portbar's own. Ends of cells and rows are left out, as HTML allows, since a page may have a hundred thousand of them.
</%doc>\
<%def name="style()">
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #d0d7de; --stripe: #f3f5f7; --link: #0550ae;
  --yes: #116329; --no: #a40e26; --best: #0550ae;
  --s0: #57606a; --s1: #0b63b0; --s2: #b45309; --s3: #0f766e; --s4: #a21caf; --s5: #4d7c0f; --s6: #b91c1c; --s7: #6d28d9;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14181d; --ink: #e6e9ed; --quiet: #a3adb8; --line: #3a424c; --stripe: #1d232a; --link: #79b8ff;
    --yes: #6fdd8b; --no: #ff9492; --best: #79b8ff;
    --s0: #b3bcc6; --s1: #6cb2ff; --s2: #fbbf24; --s3: #4fd1c5; --s4: #e879f9; --s5: #a3e635; --s6: #fca5a5; --s7: #c4b5fd;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 1rem clamp(0.75rem, 3vw, 2.5rem) 3rem;
  background: var(--page); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; }
p { max-width: 75ch; margin: 0.5rem 0; }
a { color: var(--link); }
.quiet, figcaption { color: var(--quiet); font-size: 0.875rem; }
nav ul { padding: 0; margin: 0.75rem 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; list-style: none; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 4px; max-height: 85vh; margin: 0.75rem 0; }
.scroll.more { box-shadow: inset -1rem 0 0.75rem -0.75rem var(--quiet); }
.hint { margin: 0.25rem 0; }
.scroll:focus-visible, button:focus-visible, input:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.875rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
thead th { position: sticky; top: 0; background: var(--stripe); vertical-align: bottom; font-weight: 600; z-index: 2; }
tbody th { position: sticky; left: 0; background: var(--page); font-weight: 500; min-width: 15rem; max-width: 22rem; z-index: 1; overflow-wrap: anywhere; }
thead th:first-child { left: 0; z-index: 3; }
td { min-width: 3.5rem; max-width: 22rem; }
td:nth-child(2):not(.num) { min-width: 9rem; overflow-wrap: anywhere; }
td:last-child { white-space: nowrap; }
.num { text-align: right; white-space: nowrap; }
thead .num { white-space: normal; }
.yes { color: var(--yes); }
.no { color: var(--no); font-weight: 600; }
.best { color: var(--best); font-weight: 600; }
.matrix thead th:not(:first-child) { writing-mode: vertical-rl; text-align: end; vertical-align: bottom; white-space: nowrap; padding: 0.5rem 0.2rem; }
.matrix td { min-width: 1.9rem; padding-inline: 0.25rem; text-align: center; }
.matrix td:nth-child(2):not(.num) { min-width: 1.9rem; }
thead button { all: unset; cursor: pointer; display: inline; }
thead button::after { content: "\00a0\2195"; color: var(--quiet); font-weight: 400; }
th[aria-sort=ascending] button::after { content: "\00a0\2191"; color: var(--ink); }
th[aria-sort=descending] button::after { content: "\00a0\2193"; color: var(--ink); }
label.filter { display: inline-block; margin: 0.25rem 0; font-size: 0.875rem; }
label.filter input { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 4px; padding: 0.2rem 0.4rem; margin-left: 0.4rem; width: 14rem; max-width: 60vw; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1.25rem; align-items: start; margin: 0.75rem 0; }
figure { margin: 0; max-width: 32rem; break-inside: avoid; }
figure h3 { font-size: 0.9375rem; margin: 0 0 0.25rem; font-weight: 600; }
svg.plot { display: block; width: 100%; height: auto; font-family: system-ui, sans-serif; stroke-linejoin: round; stroke-linecap: butt; }
.f-ink { fill: var(--ink); } .s-ink { stroke: var(--ink); } .f-faint { fill: var(--line); } .s-faint { stroke: var(--line); }
.f-s0 { fill: var(--s0); } .s-s0 { stroke: var(--s0); } .f-s1 { fill: var(--s1); } .s-s1 { stroke: var(--s1); }
.f-s2 { fill: var(--s2); } .s-s2 { stroke: var(--s2); } .f-s3 { fill: var(--s3); } .s-s3 { stroke: var(--s3); }
.f-s4 { fill: var(--s4); } .s-s4 { stroke: var(--s4); } .f-s5 { fill: var(--s5); } .s-s5 { stroke: var(--s5); }
.f-s6 { fill: var(--s6); } .s-s6 { stroke: var(--s6); } .f-s7 { fill: var(--s7); } .s-s7 { stroke: var(--s7); }
summary { cursor: pointer; }
[hidden] { display: none; }
@media (max-width: 90rem) {
  th, td { padding: 0.3rem 0.35rem; }
  tbody th { min-width: 9rem; }
  td:nth-child(2):not(.num) { min-width: 6rem; }
  #verdicts { font-size: 0.8125rem; }
}
@media (max-width: 40rem) {
  th, td { padding: 0.25rem 0.4rem; }
  tbody th { min-width: 7.5rem; max-width: 8.5rem; font-size: 0.8125rem; }
  thead th:first-child { max-width: 8.5rem; }
}
@page { size: A4 landscape; margin: 1cm; }
@media print {
  body { max-width: none; padding: 0; font-size: 9pt; }
  nav, label.filter, .hint { display: none; }
  .scroll, .scroll.more { overflow: visible; border: 0; max-height: none; box-shadow: none; }
  table { font-size: 6pt; min-width: 0; }
  th, td { padding: 1pt 2pt; position: static; min-width: 0; }
  thead th, tbody th { position: static; min-width: 0; }
  tbody th { min-width: 6rem; }
  td:nth-child(2):not(.num), .matrix td, .matrix td:nth-child(2):not(.num) { min-width: 0; }
  .quiet, figure h3 { font-size: 8pt; }
  thead button::after { content: ""; }
  tr { break-inside: avoid; }
}
</%def>\
<%def name="script()">
"use strict";
(function () {
  function key(row, column) {
    var cell = row.cells[column], value = cell.dataset.v;
    if (value !== undefined) { return Number(value); }
    return cell.textContent.trim().toLowerCase();
  }
  function order(a, b) {
    var numbers = (typeof a === "number") + (typeof b === "number");
    if (numbers === 2) { return a - b; }
    if (numbers === 1) { return typeof a === "number" ? -1 : 1; }
    return a < b ? -1 : a > b ? 1 : 0;
  }
  function sort(table, column, descending) {
    var body = table.tBodies[0], rows = Array.from(body.rows), keys = new Map();
    rows.forEach(function (row) { keys.set(row, key(row, column)); });
    rows.sort(function (one, other) {
      var a = keys.get(one), b = keys.get(other);
      if (a === "" || b === "") { return (a === "") - (b === ""); }
      return descending ? order(b, a) : order(a, b);
    });
    body.append.apply(body, rows);
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, index) {
      if (index === column) { cell.setAttribute("aria-sort", descending ? "descending" : "ascending"); }
      else { cell.removeAttribute("aria-sort"); }
    });
  }
  function filter(table, text) {
    text = text.toLowerCase();
    Array.from(table.tBodies[0].rows).forEach(function (row) {
      row.hidden = row.textContent.toLowerCase().indexOf(text) < 0;
    });
  }
  function tell(table, hint) {
    var box = table.parentNode, edge = box.getBoundingClientRect().right + 1;
    var hidden = Array.from(table.tHead.rows[0].cells).filter(function (cell) {
      return cell.getBoundingClientRect().right > edge;
    }).length;
    box.classList.toggle("more", hidden > 0);
    hint.hidden = box.scrollWidth <= box.clientWidth + 1;
    hint.textContent = hidden
      ? hidden + (hidden === 1 ? " more column" : " more columns") + " to the right: scroll the table \u2192"
      : "\u2190 scroll the table back";
  }
  var tables = Array.from(document.querySelectorAll("table"));
  tables.forEach(function (table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.from(cell.childNodes));
      cell.append(button);
      button.addEventListener("click", function () {
        var descending = cell.getAttribute("aria-sort") === "ascending";
        sort(table, column, descending);
        history.replaceState(null, "", "#sort=" + table.id + "," + column + (descending ? ",down" : ""));
      });
    });
    var hint = document.createElement("p"), told = tell.bind(null, table, hint);
    hint.className = "quiet hint";
    table.parentNode.before(hint);
    table.parentNode.addEventListener("scroll", told);
    window.addEventListener("resize", told);
    told();
    if (table.tBodies[0].rows.length > 10) {
      var label = document.createElement("label"), input = document.createElement("input");
      label.className = "filter";
      input.type = "search";
      input.addEventListener("input", function () { filter(table, input.value); });
      label.append("Only rows with", input);
      table.parentNode.before(label);
    }
  });
  var wanted = /^#sort=([a-z-]+),(\d+)(,down)?$/.exec(location.hash);
  var table = wanted && document.getElementById(wanted[1]);
  if (table && table.tHead && Number(wanted[2]) < table.tHead.rows[0].cells.length) {
    sort(table, Number(wanted[2]), Boolean(wanted[3]));
    table.scrollIntoView();
  }
}());
</%def>\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style>${css | n}</style>
</head>
<body>
<header>
<h1>${title}</h1>
% for paragraph in intro:
<p>${paragraph}
% endfor
<nav aria-label="Tables"><ul>
% for table in tables:
<li><a href="#${table.name}-title">${table.title}</a>
% endfor
</ul></nav>
</header>
<main>
% for table in tables:
<section aria-labelledby="${table.name}-title">
<h2 id="${table.name}-title">${table.title}</h2>
<p>${table.about}
% if table.name in plots:
<div class="plots">
% for plot in plots[table.name].plots:
<figure>
<h3>${plot.title}</h3>
<div role="img" aria-label="${plot.title}. ${plot.text}">${plot.svg | n}</div>
</figure>
% endfor
</div>
% if plots[table.name].note:
<p class="quiet">${plots[table.name].note}
% endif
% endif
<div class="scroll" tabindex="0" role="region" aria-labelledby="${table.name}-title">
<table id="${table.name}"${' class="matrix"' if table.matrix else '' | n}>
<thead><tr>\
% for column in table.columns:
<th scope="col"${'' if column in table.words else ' class="num"' | n}>${column}\
% endfor

<tbody>
% for row in rows[table.name]:
${row | n}
% endfor
</table>
</div>
% for note in table.notes:
<p class="quiet">${note}
% endfor
</section>
% endfor
% if unread:
<section aria-labelledby="unread-title">
<h2 id="unread-title">Files that are not records</h2>
<ul>
% for name, why in unread:
<li>${name}: ${why}
% endfor
</ul>
</section>
% endif
</main>
<script>${js | n}</script>
</body>
</html>
