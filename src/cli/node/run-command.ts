import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { errorCode } from '../../base/errors.ts';
import { visibleLines } from '../../base/text.ts';
import { hasEnded, type RunRecord } from '../../server/records/run.ts';
import type { ApiClient } from '../api-client.ts';
import type { Call, FlagValues } from '../command-table.ts';
import { exitCodes, spearExitCodes, UsageError } from '../exit-codes.ts';
import { printable } from '../formatting.ts';
import { type FollowedEvent, followRun, WaitText } from './follow-run.ts';
import { runSide, type submitFlags } from './side.ts';

/** `spear run TASK`: submits a run, waits for it, prints its output, and exits with the exit code of its guest. */
export async function submitRun({ flags, args: [given = ''] }: Call<FlagValues<typeof submitFlags>>): Promise<number> {
  const { client, namespace: named } = await runSide(flags);
  const [first = '', second] = given.split('/', 2);
  const [namespace, task] = second === undefined ? [named, first] : [first, second];
  const key = flags.idempotencyKey;
  const runs = `/v1/namespaces/${encodeURIComponent(namespace)}`;
  const run = (await client.json('POST', `${runs}/tasks/${encodeURIComponent(task)}/runs`, {
    body: await inputOf(flags.input),
    contentType: 'application/octet-stream',
    headers: key === undefined ? {} : { 'idempotency-key': key },
  })) as unknown as RunRecord;
  process.stderr.write(`spear: submitted task ${printable(given)} to ${printable(client.description)} as ${run.id}\n`);
  if (flags.detach) {
    process.stdout.write(flags.json ? `${JSON.stringify(run)}\n` : `${run.id}\n`);
    return spearExitCodes.ok;
  }
  return waitFor(client, `${runs}/runs/${run.id}`, run, flags);
}

async function inputOf(given: string | undefined): Promise<Uint8Array> {
  if (given === '-') return buffer(process.stdin);
  if (given === undefined) return new Uint8Array();
  try {
    return readFileSync(given);
  } catch (error) {
    throw new UsageError(`--input ${given}: cannot be read (${errorCode(error)}); - is standard input`);
  }
}

/** Ctrl-C stops waiting; the run continues on its node. */
async function waitFor(
  client: ApiClient,
  path: string,
  { id, status, parked_for: until, status_reason: queuedFor }: RunRecord,
  { follow, json }: { readonly follow: boolean; readonly json: boolean },
): Promise<number> {
  const left = new AbortController();
  const leave = () => left.abort();
  process.once('SIGINT', leave);
  const waits = new WaitText(id, `GET /api/v1/executions/${id}/streams/ws`);
  const tell = (data: FollowedEvent['data']) => {
    for (const line of waits.lines(data)) process.stderr.write(`spear: ${printable(line)}\n`);
  };
  // An earlier submission with the same Idempotency-Key may have been parked before this command follows its events.
  if (status === 'parked') tell({ status, for: until });
  if (status === 'queued') tell({ status, reason: queuedFor });
  const onEvent = (event: FollowedEvent) => {
    if (follow) show(event);
    if (event.event === 'status') tell(event.data);
  };
  try {
    await followRun(client, path, onEvent, left.signal);
  } finally {
    process.off('SIGINT', leave);
  }
  if (left.signal.aborted) {
    process.stderr.write(`spear: the run continues: spear runs get ${id}; spear runs cancel ${id} cancels it\n`);
    return exitCodes.interrupted;
  }
  const run = (await client.json('GET', path)) as unknown as RunRecord;
  if (json) process.stdout.write(`${JSON.stringify(run)}\n`);
  else printResult(await client.bytes('GET', `${path}/result`));
  for (const { server, reason } of run.degraded ?? []) {
    process.stderr.write(`spear: degraded: no tools of server ${printable(server)}: ${printable(reason)}\n`);
  }
  if (run.status === 'succeeded') return spearExitCodes.ok;
  const { reason = run.status, code = null, message = null } = run.exit ?? {};
  process.stderr.write(
    `spear: the run ${id} ended as ${run.status}: ${printable(message ?? `${reason} ${code ?? ''}`)}\n`,
  );
  return hasEnded(run.status) && code !== null && code !== 0 ? code & 0xff : spearExitCodes.failed;
}

/** Raw bytes, but without control sequences if stdout is a terminal. */
export function printResult(bytes: Uint8Array): void {
  process.stdout.write(process.stdout.isTTY ? visibleLines(Buffer.from(bytes).toString('utf8')) : bytes);
}

/** One line on stderr: stdout has only the result. */
export function show({ event, data }: FollowedEvent): void {
  const line = (text: string) => process.stderr.write(`${printable(text)}\n`);
  switch (event) {
    case 'log':
      for (const text of String(data.text ?? '').split('\n')) if (text !== '') line(`log | ${text}`);
      return;
    case 'tool':
      line(
        `tool | ${String(data.server ?? 'guest')} ${String(data.tool)}: ${String(data.outcome)}, ${Math.round(Number(data.durationMs))} ms`,
      );
      return;
    case 'model':
      if (data.type === 'text') line(`${String(data.session)} | ${String(data.text)}`);
      return;
    case 'status':
      line(`status | ${String(data.status)}${typeof data.reason === 'string' ? `: ${data.reason}` : ''}`);
      for (const { server, reason } of Array.isArray(data.degraded) ? data.degraded : []) {
        line(`degraded | no tools of server ${String(server)}: ${String(reason)}`);
      }
      return;
    case 'gap':
      line('… some events were evicted');
  }
}
