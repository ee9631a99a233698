import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { fixture, spearRun } from './spear-run.ts';

const audit = `Expense audit, July 2026: 18 claims

   1  read_policy  {}                                         5 rules
   2  total_by     {"field":"category"}                       5 groups: travel 1,309.50, equipment 964.00 ...
   3  total_by     {"field":"employee"}                       4 groups: Costa 1,794.50, Dumont 682.90 ...
   4  find_claims  {"category":"meals","over_eur":60}         1 claim, 238.40 EUR
`;

const report = `  E16    2026-07-17  Costa     Fly Iberia     duplicate        387.00
  6 of 18 claims flagged, 1,935.90 of 3,582.50 EUR (54 %)

  Costa split one order`;

const WEBASSEMBLY = 'WebAssembly is a compact binary format for programs that run fast and sandboxed on any host.\n';

const questions = 'asked 0: Tell me a long story about the sea.\nasked 1: Name one colour.\n';
const answers = 'answer 1: Blue.\nanswer 0: Once there was a lighthouse that kept watch over a quiet sea.\n';

const shopping = `round 1
stock {"part":"rotor"} -> {"stock":3}
stock {"part":"gasket"} -> {"stock":0}
round 2
price {"part":"rotor"} -> {"price_cents":24900}
Three rotors are in stock, for 747.00 EUR together; a fourth and the gasket have to be ordered.
`;

/** What each example prints with the script and the task of its name. */
const examples: Readonly<Record<string, string>> = {
  'c/chat': WEBASSEMBLY,
  'c/sum': 'tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n',
  'c/epoll': questions + answers,
  'c/handback': shopping,
  'assemblyscript/chat': WEBASSEMBLY,
  'assemblyscript/sum': 'tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n',
  'assemblyscript/epoll': questions + answers,
};

/** Examples that need MCP servers have tests of their own. */
const elsewhere = ['c/files', 'c/mcp'];

const play = (example: string) => {
  const name = example.split('/')[1];
  const script = ['--script', fixture(`scripts/${name}.json`), '--task-config', fixture(`tasks/${name}.json`)];
  return spearRun([fixture(`${example}.wasm`), ...script]);
};

it.each([
  ['c', 'hello from C\n'],
  ['assemblyscript', 'hello from AssemblyScript\n'],
])('%s/hello greets [examples.hello]', async (language, stdout) => {
  expect(await spearRun([fixture(`${language}/hello.wasm`)])).toEqual({ code: 0, signal: null, stdout, stderr: '' });
});

it.each(Object.entries(examples))('%s prints what it should [examples.output]', async (example, stdout) => {
  expect(await play(example)).toEqual({ code: 0, signal: null, stdout, stderr: '' });
});

describe('the agent', () => {
  it('works through the claims with its four tools and reports its own numbers [examples.agent]', async () => {
    const { code, stdout, stderr } = await play('c/agent');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.startsWith(audit)).toBe(true);
    expect(stdout).toContain(report);
    expect(stdout.match(/^ +\d+ {2}\w+ /gm)).toHaveLength(14);
  });

  it('does the same in AssemblyScript [examples.agent]', async () => {
    const [c, assemblyscript] = await Promise.all([play('c/agent'), play('assemblyscript/agent')]);
    expect(assemblyscript).toEqual(c);
  });

  it('says so and fails when the model does not play along [examples.agent]', async () => {
    const { code, stderr } = await spearRun([fixture('c/agent.wasm'), '--script', fixture('scripts/sum.json')]);
    expect(code).toBe(1);
    expect(stderr).toContain('the audit did not finish: script sum.json: no unused turn matches; came: ');
    expect(stderr).toContain('tools offered: read_policy, total_by, find_claims, flag_claim');
  });
});

it('a chat takes its question from the command line [examples.output]', async () => {
  const { stdout } = await spearRun([fixture('assemblyscript/chat.wasm'), '--', 'Why?']);
  expect(stdout).toBe('[stub] no model is configured; you said: Why?\n');
});

it('no example of fixtures/ is left out [examples.output]', () => {
  const built = ['c', 'assemblyscript'].flatMap((language) =>
    readdirSync(fixture(language)).flatMap((name) =>
      name.endsWith('.wasm') ? [`${language}/${name.slice(0, -5)}`] : [],
    ),
  );
  const known = [
    ...Object.keys(examples),
    ...elsewhere,
    'c/hello',
    'c/agent',
    'assemblyscript/hello',
    'assemblyscript/agent',
  ];
  expect(built.sort()).toEqual(known.sort());
});
