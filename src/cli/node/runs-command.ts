import { didYouMean } from '../../base/nearest-key.ts';
import type { RunRecord } from '../../protocol/run.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import { age, printable, table } from '../table.ts';
import { UsageError } from '../usage-error.ts';
import { followRun } from './follow-run.ts';
import { runsHelp } from './help.ts';
import { printResult, show } from './run-command.ts';
import { runSide, type Side, sideOptions } from './side.ts';

const options = {
  ...sideOptions,
  task: { type: 'string' },
  status: { type: 'string' },
  limit: { type: 'string' },
} as const;

interface Words extends Side {
  readonly args: readonly string[];
  readonly json: boolean;
  readonly query: string;
}

const verbs: Readonly<Record<string, (words: Words) => Promise<void>>> = {
  ls: listRuns,
  dead: (words) => listRuns({ ...words, query: `${words.query}&status=dead` }),
  get: getRun,
  result: async (words) => printResult(await words.client.bytes('GET', `${runPath(words)}/result`)),
  logs: showLogs,
  cancel: (words) =>
    act(words, 'cancel', (run) => `${run.id} ${run.status === 'cancelled' ? 'cancelled' : 'is being ended'}`),
  retry: (words) => act(words, 'retry', (run) => run.id),
  // It may be piped to spear journal; a terminal gets it as text.
  journal: async (words) => printResult(await words.client.bytes('GET', `${runPath(words)}/journal`)),
};

/** `spear runs …` */
export async function runsCommand(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear runs');
  const [verb, ...args] = positionals;
  if (values.help || verb === undefined) {
    process.stdout.write(runsHelp);
    return verb === undefined && !values.help ? spearExitCodes.usage : spearExitCodes.ok;
  }
  const run = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (run === undefined) {
    const known = Object.keys(verbs);
    throw new UsageError(`there is no "runs ${verb}"; ${didYouMean(verb, known) ?? `there are ${known.join(', ')}`}`);
  }
  const given = Object.entries({ task: values.task, status: values.status, limit: values.limit });
  const query = new URLSearchParams(given.filter((entry): entry is [string, string] => entry[1] !== undefined));
  await run({ ...(await runSide(values)), args, json: values.json ?? false, query: String(query) });
  return spearExitCodes.ok;
}

async function listRuns({ client, namespace, args, json, query }: Words): Promise<void> {
  if (args.length > 0)
    throw new UsageError(`spear runs ls takes no ${JSON.stringify(args[0])}; spear runs get ID shows one`);
  const value = await client.json('GET', `/v1/namespaces/${encodeURIComponent(namespace)}/runs?${query}`);
  if (json) {
    process.stdout.write(`${JSON.stringify(value)}\n`);
    return;
  }
  const { runs, cursor } = value as unknown as { runs: readonly RunRecord[]; cursor: string | null };
  const rows = runs.map((run) => [
    run.id,
    `${run.task}@${run.revision}`,
    run.status,
    String(run.attempts),
    exitText(run),
    String(run.cost?.tokens.total_tokens ?? '-'),
    age(Math.max(0, Date.now() - run.submitted_at_ms)),
    tookText(run),
    run.submitted_by,
  ]);
  process.stdout.write(table(['RUN', 'TASK', 'STATUS', 'ATTEMPTS', 'EXIT', 'TOKENS', 'AGE', 'TOOK', 'BY'], rows));
  if (cursor !== null) process.stdout.write('… older ones are not shown; --limit shows more\n');
}

async function getRun(words: Words): Promise<void> {
  const value = await words.client.json('GET', runPath(words));
  if (words.json) {
    process.stdout.write(`${JSON.stringify(value)}\n`);
    return;
  }
  for (const [name, field] of Object.entries(value as Record<string, unknown>)) {
    if (field === null) continue;
    process.stdout.write(`${name}: ${printable(typeof field === 'object' ? JSON.stringify(field) : String(field))}\n`);
  }
}

/** What happened and happens, to its end. */
async function showLogs(words: Words): Promise<void> {
  const left = new AbortController();
  process.once('SIGINT', () => left.abort());
  await followRun(words.client, runPath(words), show, left.signal);
}

async function act(words: Words, verb: 'cancel' | 'retry', text: (run: RunRecord) => string): Promise<void> {
  const run = (await words.client.json('POST', `${runPath(words)}/${verb}`)) as unknown as RunRecord;
  process.stdout.write(words.json ? `${JSON.stringify(run)}\n` : `${printable(text(run))}\n`);
}

function runPath({ namespace, args }: Words): string {
  const [id, ...more] = args;
  if (id === undefined || more.length > 0) throw new UsageError('expected the id of one run; spear runs ls lists them');
  return `/v1/namespaces/${encodeURIComponent(namespace)}/runs/${encodeURIComponent(id)}`;
}

function exitText({ exit }: RunRecord): string {
  if (exit === null) return '-';
  return exit.reason === 'exit' ? String(exit.code) : exit.reason;
}

function tookText({ started_at_ms, ended_at_ms }: RunRecord): string {
  if (started_at_ms === null || ended_at_ms === null) return '-';
  return `${((ended_at_ms - started_at_ms) / 1000).toFixed(2)}s`;
}
