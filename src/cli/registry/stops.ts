import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../base/errors.ts';
import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { type StopEffect, type StopRecord, type StopScope, stopTarget } from '../../server/records/stop.ts';
import type { ApiClient } from '../api-client.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { age, printable, table } from '../formatting.ts';
import { type JsonFlag, type SpearCommand, type SpearContext, STOPS_PATH } from '../spear/command.ts';

/** A stop in responses of the admin API. */
interface ShownStop extends StopRecord {
  readonly confirmed: number;
  readonly unconfirmed: readonly { readonly node_id: string; readonly age_ms: number }[];
  readonly warnings?: readonly string[];
}

interface StopFlags extends JsonFlag {
  readonly all: boolean;
  readonly namespace: string | undefined;
  readonly task: string | undefined;
  readonly server: string | undefined;
  readonly reason: string | undefined;
  readonly cancel: boolean;
  readonly lift: string | undefined;
}

interface ReasonFlags extends JsonFlag {
  readonly reason: string | undefined;
}

/** How long the command waits for nodes to confirm. */
const CONFIRM_MS = 5_000;
const LOOK_MS = 100;

export const stop: SpearCommand<StopFlags> = async (context) => {
  const { flags } = context;
  const targets = targetsOf(flags);
  if (flags.lift !== undefined) {
    if (targets.length > 0 || flags.reason !== undefined || flags.cancel) {
      throw new UsageError('--lift cannot be combined with flags that set a stop');
    }
    return lift(context, [flags.lift]);
  }
  const [target, ...more] = targets;
  if (target === undefined) {
    if (flags.reason !== undefined || flags.cancel) {
      throw new UsageError('say what to stop: --all, --namespace, --task or --server');
    }
    return list(context);
  }
  if (more.length > 0) throw new UsageError('name one of --all, --namespace, --task and --server');
  if (flags.cancel && target.scope === 'server') {
    throw new UsageError('--cancel cannot be combined with --server: a server has no runs');
  }
  const effect = flags.cancel ? 'cancel' : 'stop';
  return begin(context, target, effect, required(flags.reason));
};

export const cordonNode: SpearCommand<ReasonFlags> = (context) => ofNode(context, 'pause');
export const drainNode: SpearCommand<ReasonFlags> = (context) => ofNode(context, 'drain');
export const uncordonNode: SpearCommand = async (context) => {
  const [name = ''] = context.args;
  return liftAll(context, { scope: 'node', name });
};

export const pauseTask: SpearCommand<ReasonFlags> = async (context) => {
  const { args, flags } = context;
  const target = { scope: 'task', name: taskOf(args[0] ?? '') } as const;
  return begin(context, target, 'pause', flags.reason ?? 'paused by an operator');
};
export const resumeTask: SpearCommand = async (context) => {
  const name = taskOf(context.args[0] ?? '');
  return liftAll(context, { scope: 'task', name, effect: 'pause' });
};

function ofNode(context: SpearContext<ReasonFlags>, effect: StopEffect): Promise<number> {
  const { args, flags } = context;
  const words = effect === 'drain' ? 'drained by an operator' : 'cordoned by an operator';
  return begin(context, { scope: 'node', name: args[0] ?? '' }, effect, flags.reason ?? words);
}

interface Target {
  readonly scope: StopScope;
  readonly name: string;
}

function targetsOf({ all, namespace, task, server }: StopFlags): Target[] {
  return [
    ...(all ? [{ scope: 'all', name: '' } as const] : []),
    ...(namespace === undefined ? [] : [{ scope: 'namespace', name: namespace } as const]),
    ...(task === undefined ? [] : [{ scope: 'task', name: taskOf(task) } as const]),
    ...(server === undefined ? [] : [{ scope: 'server', name: server } as const]),
  ];
}

const taskOf = (given: string) => (given.includes('/') ? given : `${DEFAULT_NAMESPACE}/${given}`);

function required(reason: string | undefined): string {
  if (reason === undefined) throw new UsageError('--reason is required: users whose runs are stopped see it');
  return reason;
}

async function begin(
  { client, flags, print, say }: SpearContext,
  target: Target,
  effect: StopEffect,
  reason: string,
): Promise<number> {
  const body = JSON.stringify({ ...target, effect, reason });
  const { value } = await client.request('POST', STOPS_PATH, { body, contentType: 'application/json' });
  const created = value as unknown as ShownStop;
  const stopped = await confirmed(client, created, say);
  if (flags.json) print(`${JSON.stringify({ ...stopped, warnings: created.warnings ?? [] })}\n`);
  else {
    print(`${stopped.stop_id} ${stopped.effect} ${printable(stopTarget(stopped))}\n`);
    if (stopped.reason !== reason) say(`it was already active, with the reason: ${printable(stopped.reason)}`);
    for (const warning of created.warnings ?? []) say(printable(warning));
    tellNodes(stopped, say);
  }
  return stopped.unconfirmed.length === 0 ? spearExitCodes.ok : spearExitCodes.failed;
}

/** Waits until every node applies the stop, at most {@link CONFIRM_MS}. The stop is stored: an error does not hide its id. */
async function confirmed(client: ApiClient, created: ShownStop, say: (text: string) => void): Promise<ShownStop> {
  const end = performance.now() + CONFIRM_MS;
  let stopped = created;
  try {
    while ((stopped.unconfirmed.length > 0 || knowsNoNode(stopped)) && performance.now() < end) {
      await delay(LOOK_MS);
      stopped = (await client.json('GET', `${STOPS_PATH}/${created.stop_id}`)) as unknown as ShownStop;
    }
  } catch (error) {
    say(`the stop is stored, but whether nodes confirm it is unknown: ${errorText(error)}`);
  }
  return stopped;
}

/** A registry that was just restarted learns of its nodes when they report again. */
const knowsNoNode = ({ confirmed: count, unconfirmed, scope }: ShownStop) =>
  count === 0 && unconfirmed.length === 0 && scope !== 'node';

function tellNodes(stop: ShownStop, say: (text: string) => void): void {
  const { confirmed: count, unconfirmed, scope } = stop;
  say(`${count} ${count === 1 ? 'node' : 'nodes'} confirmed`);
  if (knowsNoNode(stop)) {
    say(
      'no node of the scope reports to this registry; one that is cut off for longer than node_expiry_ms is not listed',
    );
  }
  for (const { node_id, age_ms } of unconfirmed) {
    say(`not confirmed by ${printable(node_id)}, last report ${age(age_ms)} ago`);
  }
  if (unconfirmed.length > 0 && scope !== 'node') {
    say(
      'a node that is cut off refuses calls when its registry snapshot is older than mcp.max_staleness_ms (default: never)',
    );
  }
}

async function list({ client, flags, print, say }: SpearContext): Promise<number> {
  const value = await client.json('GET', STOPS_PATH);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { stops } = value as unknown as { stops: readonly ShownStop[] };
    if (stops.length === 0) say('no active stops');
    const rows = stops.map((one) => [
      one.stop_id,
      one.effect,
      stopTarget(one),
      age(Math.max(0, Date.now() - one.created_at_ms)),
      one.created_by,
      `${one.confirmed}/${one.confirmed + one.unconfirmed.length}`,
      one.reason,
    ]);
    print(table(['ID', 'EFFECT', 'WHAT', 'AGE', 'BY', 'CONFIRMED', 'REASON'], rows));
  }
  return spearExitCodes.ok;
}

async function lift({ client, flags, print }: SpearContext, ids: readonly string[]): Promise<number> {
  for (const id of ids) {
    await client.request('DELETE', `${STOPS_PATH}/${encodeURIComponent(id)}`);
    if (!flags.json) print(`${printable(id)} lifted\n`);
  }
  if (flags.json) print(`${JSON.stringify({ lifted: ids })}\n`);
  return spearExitCodes.ok;
}

async function liftAll(context: SpearContext, wanted: Target & { readonly effect?: StopEffect }): Promise<number> {
  const { stops } = (await context.client.json('GET', STOPS_PATH)) as unknown as { stops: readonly ShownStop[] };
  const found = stops.filter(
    ({ scope, name, effect }) => scope === wanted.scope && name === wanted.name && (wanted.effect ?? effect) === effect,
  );
  if (found.length > 0)
    return lift(
      context,
      found.map(({ stop_id }) => stop_id),
    );
  context.say(`${printable(stopTarget(wanted))} is not ${wanted.scope === 'node' ? 'cordoned' : 'paused'}`);
  return spearExitCodes.failed;
}
