import { type AuditEvent, type AuditFold, type FoldedKind, NO_DECIDER } from './event.ts';

/** How much of what costs its maker nothing is written in full, for each run. */
export const foldLimits = {
  windowMs: 10_000,
  /** Events of one kind in a window. */
  fullOfKind: 20,
  /** Events of all kinds in a window. */
  full: 100,
  /** Kinds that are told apart in a window: names come from guests. */
  kinds: 32,
} as const;

/** Of the names in a line that stands for many. */
const NAME_CHARS = 256;

interface Count {
  readonly kind: FoldedKind;
  full: number;
  folded: number;
  firstMs: number;
  lastMs: number;
}

interface RunWindow {
  readonly task: string | null;
  full: number;
  readonly counts: Map<string, Count>;
}

export type WriteFold = (task: string | null, instance: string | null, event: AuditFold) => void;

/**
 * Keeps a guest from writing the trail full, and so its own deeds out of it. What is over the budget of a window is
 * counted, by kind, and told in one line when the window ends: nothing goes without a trace.
 */
export class Folding {
  readonly #write: WriteFold;
  readonly #runs = new Map<string | null, RunWindow>();
  #timer: NodeJS.Timeout | null = null;

  constructor(write: WriteFold) {
    this.#write = write;
  }

  /** Whether an event of the kind is to be written; if not, it has been counted. */
  admits(task: string | null, instance: string | null, kind: FoldedKind, atMs = Date.now()): boolean {
    const run = this.#run(task, instance);
    const count = countOf(run, kind);
    if (count.full < foldLimits.fullOfKind && run.full < foldLimits.full) {
      run.full++;
      count.full++;
      return true;
    }
    if (count.folded === 0) count.firstMs = atMs;
    count.lastMs = atMs;
    count.folded++;
    return false;
  }

  /** Tells what was folded, and begins anew. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const runs = [...this.#runs];
    this.#runs.clear();
    for (const [instance, { task, counts }] of runs) {
      for (const count of counts.values()) {
        if (count.folded > 0) this.#write(task, instance, toEvent(count));
      }
    }
  }

  #run(task: string | null, instance: string | null): RunWindow {
    this.#timer ??= setTimeout(() => this.flush(), foldLimits.windowMs).unref();
    const known = this.#runs.get(instance);
    if (known !== undefined) return known;
    const run = { task, full: 0, counts: new Map() };
    this.#runs.set(instance, run);
    return run;
  }
}

function countOf({ counts }: RunWindow, { server_id, tool_name, ...others }: FoldedKind): Count {
  const kind = { ...others, server_id: cut(server_id), tool_name: cut(tool_name) };
  const key = JSON.stringify(kind);
  const known = counts.get(key);
  if (known !== undefined) return known;
  if (counts.size < foldLimits.kinds) return add(counts, key, kind);
  // The names go, what is left is of our own making.
  const rest: FoldedKind = { ...kind, server_id: null, tool_name: null, peer: null };
  const restKey = JSON.stringify(rest);
  return counts.get(restKey) ?? add(counts, restKey, rest);
}

function add(counts: Map<string, Count>, key: string, kind: FoldedKind): Count {
  const count = { kind, full: 0, folded: 0, firstMs: 0, lastMs: 0 };
  counts.set(key, count);
  return count;
}

function toEvent({ kind, folded, firstMs, lastMs }: Count): AuditFold {
  return {
    event: 'events.folded',
    ...kind,
    count: folded,
    first_ts: new Date(firstMs).toISOString(),
    last_ts: new Date(lastMs).toISOString(),
  };
}

const cut = (name: string | null) =>
  name !== null && name.length > NAME_CHARS ? `${name.slice(0, NAME_CHARS).toWellFormed()}…` : name;

const nothing = { server_id: null, tool_name: null, status: null, reason: null, peer: null, method: null } as const;

/**
 * What an event is folded with; null for what is always written: approvals, calls that were sent, changes, beginnings
 * and ends.
 */
export function foldedKind(event: AuditEvent): FoldedKind | null {
  switch (event.event) {
    case 'budget.hit': {
      const { server_id, tool_name, budget: reason } = event;
      return { ...nothing, of: event.event, server_id, tool_name, reason };
    }
    case 'session.created':
      return { ...nothing, of: event.event };
    case 'mcp.injected': {
      const { server_id, status, reason } = event;
      return { ...nothing, of: event.event, server_id, status, reason };
    }
    case 'model_call.finished': {
      const { status, reason } = event;
      return status === 'ok' ? null : { ...nothing, of: event.event, status, reason };
    }
    case 'approval.decided': {
      if (event.decision !== 'rule' || event.status !== 'denied') return null;
      const { server_id, tool_name, status, decided_by: reason } = event;
      return { ...nothing, of: event.event, server_id, tool_name, status, reason };
    }
    case 'elicitation.answered': {
      if (event.decided_by !== NO_DECIDER) return null;
      const { server_id, tool_name, action: status, reason } = event;
      return { ...nothing, of: event.event, server_id, tool_name, status, reason };
    }
    case 'sms.refused': {
      const { status, reason, peer, method } = event;
      return { ...nothing, of: event.event, status, reason, peer, method };
    }
    default:
      return null;
  }
}

/** Of a call that was refused before anything was sent. */
export function refusedKind(event: Extract<AuditEvent, { event: 'tool_call.finished' }>): FoldedKind {
  const { server_id, tool_name, status, reason } = event;
  return { ...nothing, of: event.event, server_id, tool_name, status, reason };
}
