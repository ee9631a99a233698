import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { errorCode } from '../../base/error-text.ts';
import { visibleLines } from '../../base/visible-text.ts';
import { hasEnded, type RunRecord } from '../../protocol/run.ts';
import { exitCodes, spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import { printable } from '../table.ts';
import { UsageError } from '../usage-error.ts';
import { type FollowedEvent, followRun } from './follow-run.ts';
import { runCommandHelp } from './help.ts';
import type { NodeClient } from './node-client.ts';
import { runSide, sideOptions } from './side.ts';

const options = {
  ...sideOptions,
  input: { type: 'string' },
  follow: { type: 'boolean', short: 'f' },
  detach: { type: 'boolean', short: 'd' },
  'idempotency-key': { type: 'string' },
} as const;

/** `spear run TASK`: submits a run, waits for it, prints its result, and exits as its guest did. */
export async function runCommand(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear run');
  if (values.help) {
    process.stdout.write(runCommandHelp);
    return spearExitCodes.ok;
  }
  const [given, ...more] = positionals;
  if (given === undefined || more.length > 0) throw new UsageError('usage: spear run TASK [--input FILE|-] [--follow]');
  const { client, namespace: named } = await runSide(values);
  const [first = '', second] = given.split('/', 2);
  const [namespace, task] = second === undefined ? [named, first] : [first, second];
  const key = values['idempotency-key'];
  const runs = `/v1/namespaces/${encodeURIComponent(namespace)}`;
  const run = (await client.json('POST', `${runs}/tasks/${encodeURIComponent(task)}/runs`, {
    body: await inputOf(values.input),
    headers: { 'content-type': 'application/octet-stream', ...(key === undefined ? {} : { 'idempotency-key': key }) },
  })) as unknown as RunRecord;
  if (values.detach) {
    process.stdout.write(values.json ? `${JSON.stringify(run)}\n` : `${run.id}\n`);
    return spearExitCodes.ok;
  }
  return await seeOut(client, `${runs}/runs/${run.id}`, run, {
    follow: values.follow ?? false,
    json: values.json ?? false,
  });
}

async function inputOf(given: string | undefined): Promise<Uint8Array> {
  if (given === '-') return buffer(process.stdin);
  if (given === undefined) return new Uint8Array();
  try {
    return readFileSync(given);
  } catch (error) {
    throw new UsageError(`--input ${given}: it cannot be read (${errorCode(error)}); - is standard input`);
  }
}

/** Ctrl-C leaves the run alone, and says how to come back to it. */
async function seeOut(
  client: NodeClient,
  path: string,
  { id }: RunRecord,
  { follow, json }: { readonly follow: boolean; readonly json: boolean },
): Promise<number> {
  const left = new AbortController();
  const leave = () => left.abort();
  process.once('SIGINT', leave);
  try {
    await followRun(client, path, (event) => follow && show(event), left.signal);
  } finally {
    process.off('SIGINT', leave);
  }
  if (left.signal.aborted) {
    process.stderr.write(`spear: the run goes on: spear runs get ${id}; spear runs cancel ${id} ends it\n`);
    return exitCodes.interrupted;
  }
  const run = (await client.json('GET', path)) as unknown as RunRecord;
  if (json) process.stdout.write(`${JSON.stringify(run)}\n`);
  else printResult(await client.bytes('GET', `${path}/result`));
  if (run.status === 'succeeded') return spearExitCodes.ok;
  const { reason = run.status, code = null, message = null } = run.exit ?? {};
  process.stderr.write(
    `spear: the run ${id} ended as ${run.status}: ${printable(message ?? `${reason} ${code ?? ''}`)}\n`,
  );
  return hasEnded(run.status) && code !== null && code !== 0 ? code & 0xff : spearExitCodes.failed;
}

/** Text of a guest reaches a terminal only with what a terminal might obey taken out. */
export function printResult(bytes: Uint8Array): void {
  process.stdout.write(process.stdout.isTTY ? visibleLines(Buffer.from(bytes).toString('utf8')) : bytes);
}

/** On stderr, a line each, so that stdout has the result alone. */
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
      line(`status | ${String(data.status)}`);
      return;
    case 'gap':
      line('… some events are not kept any more');
  }
}
