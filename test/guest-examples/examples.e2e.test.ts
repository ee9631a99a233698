import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { fixture, spearRun } from '../e2e/spear-run.ts';

const languages = [
  { folder: 'c', language: 'C' },
  { folder: 'assemblyscript', language: 'AssemblyScript' },
];

/** With its scripted model and its task config, where it has them. */
async function runExample(folder: string, name: string): Promise<string[]> {
  const scripted = ['--script', fixture(`scripts/${name}.json`), '--task-config', fixture(`tasks/${name}.json`)];
  const options = existsSync(fixture(`scripts/${name}.json`)) ? scripted : [];
  const { code, stdout, stderr } = await spearRun([fixture(`${folder}/${name}.wasm`), ...options]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trimEnd().split('\n');
}

describe.each(languages)('the examples in $language', ({ folder, language }) => {
  it('hello says hello', async () => {
    expect(await runExample(folder, 'hello')).toEqual([`hello from ${language}`]);
  });

  it('chat prints the answer to its question', async () => {
    expect(await runExample(folder, 'chat')).toEqual([
      'WebAssembly is a compact binary format for programs that run fast and sandboxed on any host.',
    ]);
  });

  it('sum is called back by the model', async () => {
    expect(await runExample(folder, 'sum')).toEqual(['tool sum {"a":2,"b":40} -> {"sum":42}', '2 + 40 = 42']);
  });

  it('epoll prints the answer that comes first first', async () => {
    expect(await runExample(folder, 'epoll')).toEqual([
      'asked 0: Tell me a long story about the sea.',
      'asked 1: Name one colour.',
      'answer 1: Blue.',
      'answer 0: Once there was a lighthouse that kept watch over a quiet sea.',
    ]);
  });

  it('agent shows each tool call and reports from its own numbers, on one screen', async () => {
    const lines = await runExample(folder, 'agent');
    expect(lines.length).toBeLessThan(40);
    expect(lines.filter((line) => /^ +\d+ {2}\w+ +\{/.test(line))).toHaveLength(14);
    expect(lines).toContain('   7  find_claims  {"category":"equipment"}                   2 claims, 964.00 EUR');
    expect(lines).toContain('  E16    2026-07-17  Costa     Fly Iberia     duplicate        387.00');
    expect(lines).toContain('  6 of 18 claims flagged, 1,935.90 of 3,582.50 EUR (54 %)');
  });
});

it('agent prints the same in both languages', async () => {
  expect(await runExample('assemblyscript', 'agent')).toEqual(await runExample('c', 'agent'));
});

it('inventory, in C++, answers from a lambda', async () => {
  expect(await runExample('c', 'inventory')).toEqual(['No, there are three.']);
});

it('handback answers the model’s tool calls between two sends', async () => {
  expect(await runExample('c', 'handback')).toEqual([
    'round 1',
    'stock {"part":"rotor"} -> {"stock":3}',
    'stock {"part":"gasket"} -> {"stock":0}',
    'round 2',
    'price {"part":"rotor"} -> {"price_cents":24900}',
    'Three rotors are in stock, for 747.00 EUR together; a fourth and the gasket have to be ordered.',
  ]);
});

it('an exception in AssemblyScript is a line on stderr and a trap', async () => {
  const { code, stdout, stderr } = await spearRun([fixture('assemblyscript/test/abort.wasm')]);
  expect(code).toBe(134);
  expect(stdout).toBe('before the throw\n');
  expect(stderr).toMatch(/nothing left to try \(test\/abort\.ts:\d+:\d+\)/);
  expect(stderr).toContain('test/abort/run');
});
