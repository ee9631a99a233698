import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, it } from 'vitest';
import { allPages, anchorsOf, type DocPage, linksOf, readPage, root } from './pages.ts';

const pages = allPages();

interface Link {
  readonly target: string;
  readonly file: string;
  readonly anchor: string | undefined;
}

function resolved({ path }: DocPage, target: string): Link {
  const [file = '', anchor] = target.split('#', 2);
  return { target, file: file === '' ? path : normalize(join(dirname(path), file)), anchor };
}

it.each(pages)('$path links to files and headings that exist', (page) => {
  for (const { target, file, anchor } of linksOf(page).map((link) => resolved(page, link))) {
    expect(existsSync(join(root, file)), `${page.path}: ${target}`).toBe(true);
    if (anchor !== undefined) {
      expect([...anchorsOf(readPage(file))], `${page.path}: ${target}`).toContain(anchor);
    }
  }
});

it('every page of docs/ is reachable from its index', () => {
  const reached = new Set<string>();
  const visit = (path: string) => {
    if (reached.has(path)) return;
    reached.add(path);
    const page = readPage(path);
    for (const { file } of linksOf(page).map((link) => resolved(page, link))) {
      if (file.startsWith('docs/') && file.endsWith('.md')) visit(file);
    }
  };
  expect(linksOf(readPage('README.md'))).toContain('docs/README.md');
  visit('docs/README.md');
  expect(pages.map(({ path }) => path).filter((path) => path.startsWith('docs/') && !reached.has(path))).toEqual([]);
});

it('finds anchors as renderers make them', () => {
  const page = { path: 'x.md', text: '# A `b` c: d\n\n```\n# none\n```\n\n## [Link](y.md) too\n## A `b` c: d\n' };
  expect([...anchorsOf(page)]).toEqual(['a-b-c-d', 'link-too', 'a-b-c-d-1']);
});
