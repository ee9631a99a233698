import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface DocPage {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
}

export function readPage(path: string): DocPage {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

/** Every page that people read: those of docs/, of the root, and beside the guests. */
export function allPages(): DocPage[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((path) => join('docs', path));
  const others = [...readdirSync(root), join('guest-examples', 'README.md')];
  return [...others, ...docs].filter((path) => path.endsWith('.md')).map(readPage);
}

/** Blocks of code of one language. */
export function blocksOf({ text }: DocPage, language: string): string[] {
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter(([, named]) => named === language)
    .map(([, , block = '']) => block);
}

/** The page without its blocks of code: what looks like a link or a heading there is none. */
export function prose({ text }: DocPage): string {
  return text.replaceAll(/^```.*?^```$/gms, '');
}

/** Targets of the links that stay inside the project. */
export function linksOf(page: DocPage): string[] {
  return [...prose(page).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, target = '']) => target);
}

/** The anchors of its headings, as the usual renderers make them. */
export function anchorsOf(page: DocPage): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of prose(page).matchAll(/^#+ (.+)$/gm)) {
    const plain = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = plain;
    for (let again = 1; anchors.has(anchor); again++) anchor = `${plain}-${again}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The rows of the first table below a heading, cells trimmed. */
export function tableBelow({ text }: DocPage, heading: string): string[][] {
  const start = text.indexOf(`\n${heading}\n`);
  const lines = start < 0 ? [] : text.slice(start).split('\n').slice(2);
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rows = first < 0 ? [] : lines.slice(first);
  const end = rows.findIndex((line) => !line.startsWith('|'));
  return rows.slice(2, end < 0 ? undefined : end).map((line) => {
    const cells = line.split(/(?<!\\)\|/).slice(1, -1);
    return cells.map((cell) => cell.trim());
  });
}

/** What stands in backticks. */
export function codesIn(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}
