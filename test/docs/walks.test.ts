import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { rooms } from '../../scripts/layout-rules.ts';
import { literalText, nodesOf, parseTypeScript } from '../../scripts/syntax-tree.ts';
import { codesIn, readPage, root, tableBelow } from './pages.ts';

interface Step {
  readonly file: string;
  /** How it is reached from the step before; '': that one imports it. */
  readonly border: string;
  /** Of `→ from FILE →`. */
  readonly from: string | undefined;
}

const STEP = /^\d+\. (?:→ (?<border>[a-z ]+?)(?: `(?<from>[^`]+)`)? → )?`(?<file>[^`]+)`: \S/;

const architecture = readPage('docs/architecture.md');

/** The numbered lists below the headings of a section. */
function walksOf(text: string): Map<string, Step[]> {
  const section = text.split('\n## Code walkthroughs\n')[1]?.split('\n## ')[0] ?? '';
  const parts = section.split('\n### ').slice(1);
  return new Map(
    parts.map((part) => {
      const [title = '', ...lines] = part.split('\n');
      return [title, lines.filter((line) => /^\d+\./.test(line)).map(stepOf)];
    }),
  );
}

function stepOf(line: string): Step {
  const groups = STEP.exec(line)?.groups;
  if (groups === undefined) throw new Error(`not a step of a walk: ${line}`);
  return { file: groups.file ?? '', border: groups.border ?? '', from: groups.from };
}

/** What a file imports, types and later imports included. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...nodesOf(parseTypeScript(text, file.endsWith('x') ? 'tsx' : 'ts'))].flatMap(({ source }) => {
    const specifier = literalText(source);
    return specifier?.startsWith('.') ? [normalize(join(dirname(file), specifier))] : [];
  });
}

/** The files that both sides of a border between threads or processes speak by. */
const borders: Readonly<Record<string, RegExp>> = { port: /\/port\.ts$/, network: /\/generated\/.*_pb\.ts$/ };

/** Why a step is not true; undefined if it is. */
function untruth(step: Step, before: readonly Step[]): string | undefined {
  const last = before.at(-1);
  if (!existsSync(join(root, step.file))) return `${step.file} does not exist`;
  if (last === undefined) return undefined;
  const shared = borders[step.border];
  if (shared !== undefined) {
    const here = new Set(importsOf(step.file).filter((file) => shared.test(file)));
    const speaks = before.some(({ file }) => importsOf(file).some((target) => here.has(target)));
    return speaks ? undefined : `nothing before ${step.file} speaks by what it imports`;
  }
  switch (step.border) {
    case '':
      return importsOf(last.file).includes(step.file) ? undefined : `${last.file} does not import ${step.file}`;
    case 'implemented in':
    case 'used by':
      return importsOf(step.file).includes(last.file) ? undefined : `${step.file} does not import ${last.file}`;
    case 'from': {
      if (!before.some(({ file }) => file === step.from)) return `${step.from} was not passed before`;
      return importsOf(step.from ?? '').includes(step.file) ? undefined : `${step.from} does not import ${step.file}`;
    }
    default:
      return `"→ ${step.border} →" is no border`;
  }
}

const walks = walksOf(architecture.text);

describe('the walks of docs/architecture.md', () => {
  it('are listed in the order of the page', () => {
    expect([...walks.keys()]).toEqual([
      '`cchat_write_msg`',
      'A send with AUTO_TOOL_CALL and an MCP tool',
      'An upsert in the registry',
      'A run over HTTP to its result',
      'A run resumed after kill -9',
      'A console page',
      'An approval requested, decided and redeemed',
      'An audit event',
    ]);
  });

  it.each([...walks])('%s: every step leads to the next', (_, steps) => {
    expect(steps.length).toBeGreaterThan(4);
    expect(steps.flatMap((step, at) => untruth(step, steps.slice(0, at)) ?? [])).toEqual([]);
  });

  it('would be found untrue', () => {
    const [chat, fd, audit] = [
      'src/runtime/guest/hostcalls/cchat.ts',
      'src/runtime/guest/descriptors/chat-entries.ts',
      'src/server/audit/chain.ts',
    ];
    const step = (file: string, border = '', from?: string): Step => ({ file, border, from });
    expect(untruth(step(fd), [step(chat)])).toBeUndefined();
    expect(untruth(step(audit), [step(chat)])).toBe(`${chat} does not import ${audit}`);
    expect(untruth(step(audit, 'used by'), [step(chat)])).toBe(`${audit} does not import ${chat}`);
    expect(untruth(step(fd, 'from', chat), [step(audit)])).toBe(`${chat} was not passed before`);
    expect(untruth(step(audit, 'port'), [step(chat)])).toContain('nothing before');
    expect(untruth(step('src/none.ts'), [])).toBe('src/none.ts does not exist');
    expect(() => stepOf('1. src/runtime/guest/descriptors/table.ts: not marked')).toThrow('not a step');
  });
});

it('docs/architecture.md has every room in its order', () => {
  const rows = tableBelow(architecture, '## Rooms');
  expect(rows.map(([room = '']) => codesIn(room)[0])).toEqual([...rooms]);
  expect(rows.filter(([room = '']) => room.includes('⟂')).map(([room = '']) => codesIn(room)[0])).toEqual([
    'runtime/guest',
    'runtime/durable/guest',
  ]);
});
