/** The look of the page, in the colours that the reader's system asks for. */
export const style = `
:root { --text: #1b1f24; --soft: #57606a; --page: #ffffff; --line: #d0d7de; --bar: #3b76c4; --missed: #c4432b; --met: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #9aa4af; --page: #0f1318; --line: #30363d; --bar: #6ea8ee; --missed: #ff8a70; --met: #5fd27f; }
}
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 1.5rem; }
h2 { margin: 2rem 0 0; }
p { margin: .3rem 0 .8rem; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--soft); }
dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: middle; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
small, li { color: var(--soft); }
.bar { fill: var(--bar); }
.bar.missed { fill: var(--missed); }
.whisker { stroke: var(--text); stroke-width: 1.5; fill: none; }
.goal { stroke: var(--text); stroke-width: 1.5; stroke-dasharray: 3 2; }
td.met { color: var(--met); white-space: nowrap; }
td.missed { color: var(--missed); white-space: nowrap; font-weight: 600; }
`;
