import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { RecordedRun } from '../../../src/runtime/durable/recorded-run.ts';
import { Cli, type CliOptions, fixture, projectNode, scratch } from '../../e2e/spear-run.ts';

const preload = fileURLToPath(new URL('kill-after.ts', import.meta.url));
/** Many short runs, each with a server of its own. */
const KILLS_MS = 300_000;
/** Every block in turn takes minutes; of the usual run it is every third, others each time. */
const STRIDE = process.env.SPEAR_EVERY_BLOCK ? 1 : 3;
/** How many runs are killed and resumed at the same time. */
const LANES = 3;

const work = (label: string) => ({ id: label, name: 'count_work', arguments: { label } });
const sum = { id: 's', name: 'sum', arguments: { a: 2, b: 40 } };

interface Scenario {
  readonly guest: string;
  /** Turns of the model; a string: a script of the fixtures. */
  readonly script: readonly object[] | string;
  /** Labels that the server is to see. */
  readonly labels: readonly string[];
  /** In the last words of the guest. */
  readonly answer: string;
}

const scenarios: readonly Scenario[] = [
  {
    guest: 'c/files.wasm',
    script: [
      { when: { role: 'user' }, reply: { tool_calls: [work('a')] } },
      { when: { tool_call_id: 'a' }, reply: { tool_calls: [work('b'), work('c')] } },
      { when: { tool_call_id: 'c' }, reply: { content: 'all done' } },
    ],
    labels: ['a', 'b', 'c'],
    answer: 'all done',
  },
  {
    guest: 'c/sum.component.wasm',
    script: [
      { when: { role: 'user' }, reply: { tool_calls: [work('a'), sum] } },
      { when: { tool_call_id: 's' }, reply: { tool_calls: [work('b')] } },
      { when: { tool_call_id: 'b' }, reply: { content: 'it is 42' } },
    ],
    labels: ['a', 'b'],
    answer: 'it is 42',
  },
  { guest: 'c/sum.wasm', script: 'scripts/sum.json', labels: [], answer: '2 + 40 = 42' },
  { guest: 'c/stream.wasm', script: 'scripts/stream.json', labels: [], answer: '' },
  { guest: 'c/stream.component.wasm', script: 'scripts/stream.json', labels: [], answer: '' },
];

async function run(args: readonly string[], options: CliOptions = {}) {
  const cli = new Cli(args, options).listen();
  cli.child.stdin.end();
  return cli.finished();
}

/** A folder with the server's record, its list of calls, the task and the script. */
class Place {
  readonly folder: string;
  readonly journal: string;
  readonly #guest: string;
  readonly #flags: readonly string[];

  constructor(name: string, { guest, script, labels }: Scenario) {
    this.folder = join(scratch, name);
    this.journal = join(this.folder, 'run.journal');
    this.#guest = fixture(guest);
    mkdirSync(join(this.folder, 'mcp.d'), { recursive: true });
    const write = (file: string, value: object) => writeFileSync(join(this.folder, file), JSON.stringify(value));
    const env = { TRAIL: join(this.folder, 'calls') };
    const stdio = { command: projectNode, args: [fixture('mcp-servers/counting.mjs')], env };
    write('mcp.d/count.json', { server_id: 'count', transport: 'stdio', stdio, allowed_tools: ['*'] });
    const naming = { 'mcp.tool_naming': 'readable' };
    write('task.json', {
      name: 'r',
      config: { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["count"]', ...naming },
    });
    if (typeof script !== 'string') write('script.json', { turns: script });
    const scriptFile = typeof script === 'string' ? fixture(script) : join(this.folder, 'script.json');
    const mcp = ['--task-config', join(this.folder, 'task.json'), '--mcp-dir', join(this.folder, 'mcp.d')];
    this.#flags = [...(labels.length === 0 ? [] : mcp), '--script', scriptFile, '--approve', 'deny'];
  }

  record(kill?: { readonly after: number; readonly half: boolean }) {
    const args = [this.#guest, ...this.#flags, '--journal', this.journal];
    if (kill === undefined) return run(args);
    const env = { KILL_JOURNAL: this.journal, KILL_AFTER: String(kill.after), KILL_HALF: kill.half ? '1' : '' };
    return run(args, { nodeArgs: ['--import', preload], env });
  }

  resume() {
    return run(['--resume', this.journal]);
  }

  calls(): string[] {
    const file = join(this.folder, 'calls');
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  }

  unknown(): number {
    return readFileSync(this.journal, 'utf8').split('"code":"mcp_outcome_unknown"').length - 1;
  }
}

describe('a run that is killed by SIGKILL after a block of its journal, or in the middle of one', () => {
  it.each(scenarios)(
    '$guest resumes: the same answer, and no call or output twice [journal.resume]',
    async (scenario) => {
      const name = scenario.guest.replaceAll('/', '-');
      const whole = await new Place(`${name}-whole`, scenario).record();
      expect(whole).toMatchObject({ code: 0 });
      expect(whole.stdout).toContain(scenario.answer);
      let next = 1 + randomInt(STRIDE);
      let finished = false;
      let resumed = 0;
      const lane = async () => {
        while (!finished) {
          const after = next;
          next += STRIDE;
          const place = new Place(`${name}-${after}`, scenario);
          const killed = await place.record({ after, half: after % 2 === 0 });
          if (killed.signal === null) finished = true;
          else if (await resumes(place, killed.stdout, whole.stdout, scenario)) resumed += 1;
        }
      };
      await Promise.all(Array.from({ length: LANES }, lane));
      expect(resumed).toBeGreaterThan(0);
    },
    KILLS_MS,
  );
});

/** Whether there was anything to resume: of a run whose first block was torn nothing had begun. */
async function resumes(place: Place, before: string, whole: string, { labels }: Scenario): Promise<boolean> {
  if (!readFileSync(place.journal, 'utf8').includes('"#"')) {
    const refused = await place.resume();
    expect(refused).toMatchObject({ code: 125, stdout: '' });
    expect(refused.stderr).toContain('not a journal header');
    return false;
  }
  const { outputBytes } = new RecordedRun(readJournal(place.journal));
  const done = place.calls();
  const resumed = await place.resume();
  expect({ code: resumed.code, stdout: resumed.stdout }).toEqual({ code: 0, stdout: whole.slice(outputBytes.stdout) });
  // What was written down and not printed when it was killed is lost, never doubled.
  expect(whole.startsWith(before)).toBe(true);
  expect(before.length).toBeLessThanOrEqual(outputBytes.stdout);
  const both = place.calls();
  expect(both.slice(0, done.length)).toEqual(done);
  expect(new Set(both).size).toBe(both.length);
  const missing = labels.filter((label) => !both.includes(label));
  expect(place.unknown()).toBeGreaterThanOrEqual(missing.length);
  expect(statSync(place.journal).mode & 0o777).toBe(0o600);
  expect(existsSync(`${place.journal}.lock`)).toBe(false);
  return true;
}
