import type { RunRecord } from '../../server/records/run.ts';
import type { Call, Run } from '../command-table.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { age, fieldsText, printable, table } from '../formatting.ts';
import { followRun } from './follow-run.ts';
import { printResult, show } from './run-command.ts';
import { runSide, type Side, type SideFlags } from './side.ts';

interface RunsFlags extends SideFlags {
  readonly json: boolean;
}

interface ListFlags extends RunsFlags {
  readonly task: string | undefined;
  readonly status?: string | undefined;
  readonly limit: number | undefined;
}

/** One run of the side that the flags name. */
type OneRun = Side & { readonly path: string; readonly json: boolean };

const onRun =
  (act: (run: OneRun) => Promise<void>): Run<RunsFlags> =>
  async ({ flags, args: [id = ''] }) => {
    const side = await runSide(flags);
    const path = `/v1/namespaces/${encodeURIComponent(side.namespace)}/runs/${encodeURIComponent(id)}`;
    await act({ ...side, path, json: flags.json });
    return spearExitCodes.ok;
  };

const printBytes = (what: string) =>
  onRun(async ({ client, path }) => printResult(await client.bytes('GET', path + what)));

export const runResult = printBytes('/result');
export const runJournal = printBytes('/journal');

export const cancelRun = onRun((run) =>
  post(run, 'cancel', ({ id, status }) => `${id} ${status === 'cancelled' ? 'cancelled' : 'is being cancelled'}`),
);
export const retryRun = onRun((run) => post(run, 'retry', ({ id }) => id));

export const getRun = onRun(async ({ client, path, json }) => {
  const value = await client.json('GET', path);
  process.stdout.write(json ? `${JSON.stringify(value)}\n` : fieldsText(value as object));
});

/** Past and new events, until the run ends. */
export const runLogs = onRun(async ({ client, path }) => {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  await followRun(client, path, show, interrupt.signal);
});

async function post({ client, path, json }: OneRun, verb: string, text: (run: RunRecord) => string): Promise<void> {
  const run = (await client.json('POST', `${path}/${verb}`)) as unknown as RunRecord;
  process.stdout.write(json ? `${JSON.stringify(run)}\n` : `${printable(text(run))}\n`);
}

export const deadRuns: Run<ListFlags> = (call) => listRuns({ ...call, flags: { ...call.flags, status: 'dead' } });

export async function listRuns({ flags }: Pick<Call<ListFlags>, 'flags'>): Promise<number> {
  const { client, namespace } = await runSide(flags);
  const given = Object.entries({ task: flags.task, status: flags.status, limit: flags.limit?.toString() });
  const query = new URLSearchParams(given.filter((entry): entry is [string, string] => entry[1] !== undefined));
  const value = await client.json('GET', `/v1/namespaces/${encodeURIComponent(namespace)}/runs?${query}`);
  if (flags.json) {
    process.stdout.write(`${JSON.stringify(value)}\n`);
    return spearExitCodes.ok;
  }
  const { runs, cursor } = value as unknown as { runs: readonly RunRecord[]; cursor: string | null };
  const rows = runs.map((run) => [
    run.id,
    `${run.task}@${run.revision}`,
    statusText(run),
    String(run.attempts),
    exitText(run),
    String(run.cost?.tokens.total_tokens ?? '-'),
    age(Math.max(0, Date.now() - run.submitted_at_ms)),
    tookText(run),
    run.submitted_by,
  ]);
  process.stdout.write(table(['RUN', 'TASK', 'STATUS', 'ATTEMPTS', 'EXIT', 'TOKENS', 'AGE', 'TOOK', 'BY'], rows));
  if (cursor !== null) process.stdout.write('… older runs are not shown; --limit shows more\n');
  return spearExitCodes.ok;
}

/** `degraded`: the run did not have the tools of all its servers; `spear runs get` has the reasons. */
const statusText = ({ status, degraded }: RunRecord) => (degraded?.length ? `${status}, degraded` : status);

function exitText({ exit }: RunRecord): string {
  if (exit === null) return '-';
  return exit.reason === 'exit' ? String(exit.code) : exit.reason;
}

function tookText({ started_at_ms, ended_at_ms }: RunRecord): string {
  if (started_at_ms === null || ended_at_ms === null) return '-';
  return `${((ended_at_ms - started_at_ms) / 1000).toFixed(2)}s`;
}
