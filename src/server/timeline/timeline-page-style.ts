/** Colours of kinds and states are variables, once for light and once for dark. */
export const pageStyle = `
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--line:#e2e5ea;--text:#1b2330;--soft:#5d6878;--track:#eef0f4;--shade:#f2f4f7;
--send:#8a94a6;--model:#6a4fd8;--tool:#0b7fc2;--approval:#b7791f;--wait:#9aa3b2;--input:#4d8a5b;--output:#3f7d6e;--stream:#a0508f;--reply:#7a8494;--mark:#5d6878;
--ok:#1c7c4a;--failed:#c02b37;--denied:#c02b37;--unknown:#a75c00;--open:#a75c00}
@media(prefers-color-scheme:dark){:root{--page:#12161c;--card:#1a2029;--line:#2b333f;--text:#e4e8ee;--soft:#97a3b4;--track:#222a35;--shade:#151a22;
--send:#7e8a9d;--model:#a08bff;--tool:#4db2ee;--approval:#e0a94a;--wait:#6b7686;--input:#7cc08d;--output:#6cbfab;--stream:#d58bc6;--reply:#94a0b2;--mark:#97a3b4;
--ok:#5fcf93;--failed:#ff7b84;--denied:#ff7b84;--unknown:#f0a95a;--open:#f0a95a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:92rem;padding:1.5rem;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.25rem 1.5rem}
h1{margin:0;font-size:1.15rem;font-family:ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.end{margin:.35rem 0 0;font-weight:600;color:var(--state);overflow-wrap:anywhere}
.totals{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0 0;padding:0;list-style:none}
.totals li{padding:.2rem .7rem;border-radius:99px;background:var(--track);font-variant-numeric:tabular-nums}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0 0;font-size:.87rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.4rem 1rem;padding:1rem .25rem}
nav label{display:inline-flex;align-items:center;gap:.35rem;cursor:pointer;color:var(--soft)}
nav input{accent-color:var(--kind);margin:0}
main{background:var(--card);border:1px solid var(--line);border-radius:12px;overflow:hidden}
.ticks,.head{display:grid;grid-template-columns:5.5rem 4.5rem 5.2rem minmax(0,1fr) minmax(8rem,32%);gap:0 .75rem;align-items:center;padding:.38rem 1rem}
.ticks{border-bottom:1px solid var(--line);color:var(--soft);font-size:.75rem;position:sticky;top:0;background:var(--card)}
.ticks div{grid-column:5;display:flex;justify-content:space-between;font-variant-numeric:tabular-nums}
.row+.row{border-top:1px solid var(--line)}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary:hover,summary:focus-visible{background:var(--shade)}
details[open]>summary{background:var(--shade)}
.at,.took{font-size:.8rem;color:var(--soft);font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.took{color:var(--text)}
.kind{justify-self:start;padding:0 .5rem;border-radius:5px;font-size:.75rem;font-weight:600;color:var(--kind);background:color-mix(in srgb,var(--kind) 13%,transparent)}
.about{display:block;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.about b{font-weight:600}
.inside .about{padding-left:1.1rem}
.fact{margin-left:.6rem;font-size:.82rem;color:var(--soft)}
.failed .fact,.denied .fact,.unknown .fact,.open .fact{color:var(--state);white-space:normal}
.preview{margin-left:.7rem;font:.8rem ui-monospace,Menlo,Consolas,monospace;color:var(--soft)}
details[open] .preview{display:none}
.bar{display:block;width:100%;height:12px;background:var(--track);border-radius:3px}
.bar rect{fill:var(--kind)}
.failed .bar rect,.denied .bar rect{fill:var(--state)}
.unknown .bar rect,.open .bar rect{fill:var(--state);opacity:.55}
.send .bar rect{opacity:.45}
figure{margin:0;padding:.3rem 1rem .5rem 7.2rem;background:var(--shade)}
figcaption{font-size:.75rem;color:var(--soft);overflow-wrap:anywhere}
pre{margin:.15rem 0 0;padding:.5rem .75rem;max-height:28rem;overflow:auto;border:1px solid var(--line);border-radius:7px;background:var(--card);font:.82rem/1.45 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.cut{margin:.15rem 0 0;font-size:.75rem;color:var(--unknown)}
.ok{--state:var(--ok)}.failed{--state:var(--failed)}.denied{--state:var(--denied)}.unknown{--state:var(--unknown)}.row.open{--state:var(--open)}
.row,label{--kind:var(--mark)}
${['send', 'model', 'tool', 'approval', 'wait', 'input', 'output', 'stream', 'reply']
  .map((kind) => `.${kind}{--kind:var(--${kind})}body:has(#show-${kind}:not(:checked)) .row.${kind}{display:none}`)
  .join('\n')}
@media(max-width:46rem){body{padding:.75rem}header{padding:1rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}
.ticks{grid-template-columns:1fr}.ticks div{grid-column:1}
.head{grid-template-columns:auto auto 1fr;gap:.15rem .6rem;padding:.5rem .75rem}
.at,.took{text-align:left}.kind{order:-1}
.about,.bar{grid-column:1/-1}.about{white-space:normal;overflow-wrap:anywhere}.inside .about{padding-left:0}
.preview{display:block;margin:0;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}.bar{height:8px}
figure{padding:.3rem .75rem .5rem}}
@media print{nav{display:none}pre{max-height:none}}
`;
