const FENCED = /^(`{3,}|~{3,})[\s\S]*?^\1/gm;
const INLINE_CODE = /(`+)[\s\S]*?\1/g;
const LINK = /\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\[[^\]]+\]:\s+(\S+)/gm;
const ADDRESS = /^(?:[a-z][a-z0-9+.-]*:|#)/i;

/** The files and folders that a page points to, as it names them; without other sites, its own headings and code. */
export function relativeLinks(markdown: string): string[] {
  // Code stays as a space: a link's text may be all code.
  const text = markdown.replaceAll(FENCED, '').replaceAll(INLINE_CODE, ' ');
  return [...text.matchAll(LINK)]
    .map(([, inline, reference]) => inline ?? reference ?? '')
    .filter((target) => !ADDRESS.test(target))
    .map((target) => decodeURIComponent(target.replace(/#.*$/, '')));
}
