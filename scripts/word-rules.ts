import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { lineOf, nodesOf, parseTypeScript } from './syntax-tree.ts';

/**
 * Words that users cannot search for, each with the field's own term. The list holds only words without a second,
 * ordinary meaning; docs/glossary.md has the terms to use.
 */
export const avoidedWords: readonly (readonly [pattern: string, use: string])[] = [
  ['whoever', 'the caller, the user'],
  ["somebody(?:'s)?", 'a user, an approver'],
  ['nobody', 'no caller, no user'],
  ['a yes', 'an approval, a grant'],
  ['(?:is|are|was|were|be|been) told', 'is notified, receives'],
  ['tells? of', 'reports, emits'],
  ['hears? of', 'receives'],
  ['what became of', 'the outcome of'],
  ['goes on', 'continues, resumes'],
  ['lets go of', 'releases'],
  ['anew', 'again'],
  ['mend(?:s|ed|ing)?', 'fix'],
  ['under way', 'in flight, pending'],
  ['trails?', 'audit log'],
  ['recollections?', 'recorded history'],
  ['leash(?:es)?', 'cancellation scope'],
  ['seating', 'scheduler'],
  ['in one breath', 'batched'],
  ['whose it is', 'owner'],
];

/** Names of 0.2.0 that contain an avoided word; they are not prose. */
const compatibilityNames: readonly RegExp[] = [/\bAuditTrail\b/, /\/admin\/api\/trail\b/, /\bno-trail\b/];

/** Literals that are part of a data format: a changed one would not match what earlier versions wrote or hashed. */
const compatibilityLiterals: ReadonlySet<string> = new Set([
  'nobody', // decided_by of the audit log
  'the id of a key of a spear trail', // HMAC label of the audit key
  'MCP calls under way have arguments of $1', // notices in the hash of a recorded run
  'a component’s tools are handed back to it: send with HAND_BACK (4); without it the model is told they failed',
]);

const avoided = avoidedWords.map(([pattern, use]) => ({ pattern: new RegExp(`\\b(?:${pattern})\\b`, 'i'), use }));

const DOC_FOLDERS = ['docs', 'deploy', '.github'];
const DOC_FILES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
/** A file that lists the avoided words because it is about them. */
const EXCEPT = ['docs/glossary.md'];

/** Code that names the avoided words because it is about them. */
const WORD_LISTS = ['scripts/word-rules.ts', 'test/word-rules.test.ts'];

/** A piece of text that a user may read. */
interface Passage {
  readonly line: number;
  readonly text: string;
}

/** Every avoided word in text that users read: pages, and the string literals and JSX text of src/. One line each. */
export function wordProblems(root: string): string[] {
  const pages = [
    ...DOC_FILES.filter((path) => existsSync(join(root, path))),
    ...DOC_FOLDERS.flatMap((folder) => filesBelow(root, folder, /\.(?:md|txt)$/)),
  ];
  const sources = filesBelow(root, 'src', /\.tsx?$/).filter((path) => !path.includes('/generated/'));
  return [
    ...pages.filter((path) => !EXCEPT.includes(path)).flatMap((path) => problemsIn(path, pageLines(read(root, path)))),
    ...sources.flatMap((path) => problemsIn(path, literals(path, read(root, path)))),
  ];
}

/** Every avoided word in the code below `folders`: comments, identifiers and literals. One line each. */
export function codeWordProblems(root: string, folders: readonly string[]): string[] {
  const files = folders
    .flatMap((folder) => filesBelow(root, folder, /\.tsx?$/))
    .filter((path) => !path.includes('/generated/') && !WORD_LISTS.includes(path));
  return files.flatMap((path) => problemsIn(path, codeLines(read(root, path))));
}

/** Lines of code with `camelCase` and `snake_case` names split into words. */
function codeLines(text: string): Passage[] {
  return pageLines(text).map(({ line, text: code }) => ({
    line,
    text: code.replaceAll(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' '),
  }));
}

function problemsIn(path: string, passages: readonly Passage[]): string[] {
  return passages.flatMap(({ line, text }) => {
    if (compatibilityLiterals.has(text)) return [];
    const prose = compatibilityNames.reduce((rest, name) => rest.replaceAll(new RegExp(name, 'g'), ''), text);
    return avoided.flatMap(({ pattern, use }) => {
      const word = pattern.exec(prose)?.[0];
      return word === undefined ? [] : [`${path}:${line} "${word}": write ${use}`];
    });
  });
}

function pageLines(text: string): Passage[] {
  return text.split('\n').map((line, index) => ({ line: index + 1, text: line }));
}

/** String literals, parts of templates and JSX text, without the paths of imports. */
export function literals(path: string, text: string): Passage[] {
  const passages: Passage[] = [];
  for (const node of nodesOf(parseTypeScript(text, path.endsWith('.tsx') ? 'tsx' : 'ts'))) {
    const found = textOf(node);
    if (found !== undefined && !/^\.{1,2}\//.test(found))
      passages.push({ line: lineOf(text, node.start), text: found });
  }
  return passages;
}

function textOf(node: { readonly type: string; readonly [key: string]: unknown }): string | undefined {
  if ((node.type === 'Literal' || node.type === 'JSXText') && typeof node.value === 'string') return node.value;
  if (node.type === 'TemplateElement' && isPiece(node.value)) return node.value.cooked;
  return undefined;
}

function isPiece(value: unknown): value is { readonly cooked: string } {
  return typeof value === 'object' && value !== null && 'cooked' in value && typeof value.cooked === 'string';
}

function filesBelow(root: string, folder: string, name: RegExp): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

function read(root: string, path: string): string {
  return readFileSync(join(root, path), 'utf8');
}
