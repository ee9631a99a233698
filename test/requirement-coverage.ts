import { isNode, lineOf, literalText, nodesOf, parseTypeScript } from '../scripts/syntax-tree.ts';
import type { Requirement } from './requirements.ts';

/** A test as it stands in a file: its title and the ids that the title names. */
export interface NamedTest {
  /** `file:line` */
  readonly where: string;
  readonly title: string;
  readonly ids: readonly string[];
}

const TEST_FUNCTIONS = ['it', 'test'];
/** Test functions that never run their test, or run it only to see it fail. */
const INACTIVE = ['skip', 'todo', 'fails'];
const ID = /^[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+$/;

/** The tests of one file, as its syntax tree has them. */
export function findTests(file: string, text: string): NamedTest[] {
  return [...nodesOf(parseTypeScript(text))].flatMap((node) => {
    if (node.type !== 'CallExpression' || !Array.isArray(node.arguments)) return [];
    const names = calleeNames(node.callee);
    if (!TEST_FUNCTIONS.includes(names[0] ?? '') || names.some((name) => INACTIVE.includes(name))) return [];
    const title = literalText(node.arguments[0]);
    return title === undefined ? [] : [{ where: `${file}:${lineOf(text, node.start)}`, title, ids: idsOf(title) }];
  });
}

/** `it.each(rows)` → it, each. */
function calleeNames(callee: unknown): string[] {
  if (!isNode(callee)) return [];
  switch (callee.type) {
    case 'Identifier':
      return [String(callee.name)];
    case 'MemberExpression':
      return [...calleeNames(callee.object), isNode(callee.property) ? String(callee.property.name) : ''];
    case 'CallExpression':
      return calleeNames(callee.callee);
    case 'TaggedTemplateExpression':
      return calleeNames(callee.tag);
    default:
      return [];
  }
}

/** `… [chat.retry] [chat.proxy]` or `… [chat.retry, chat.proxy]`. */
export function idsOf(title: string): string[] {
  return [...title.matchAll(/\[([^[\]]+)\]/g)]
    .map(([, inside = '']) => inside.split(/[,\s]+/).filter((id) => id !== ''))
    .filter((ids) => ids.every((id) => ID.test(id)))
    .flat();
}

/** What is wrong between the manifest, the docs and the tests, one line each. `isThere`: whether `page#heading` exists. */
export function coverageProblems(
  requirements: readonly Requirement[],
  tests: readonly NamedTest[],
  isThere: (docs: string) => boolean,
): string[] {
  const known = new Set<string>();
  const problems: string[] = [];
  for (const { id, promise, docs } of requirements) {
    if (known.has(id)) problems.push(`requirement ${id} is listed twice`);
    if (!ID.test(id)) problems.push(`requirement ${id}: an id is lower-case words with dots, such as chat.retry`);
    if (promise.trim() === '' || promise.includes('\n')) problems.push(`requirement ${id}: a promise is one line`);
    if (!isThere(docs)) problems.push(`requirement ${id}: ${docs} is no page, or has no such heading`);
    known.add(id);
  }
  const named = new Set(tests.flatMap(({ ids }) => ids));
  for (const { id, promise } of requirements) if (!named.has(id)) problems.push(`no test names [${id}]: ${promise}`);
  for (const { where, ids } of tests) {
    for (const id of ids) if (!known.has(id)) problems.push(`${where}: [${id}] is not in test/requirements.ts`);
  }
  return problems;
}
