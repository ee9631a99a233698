import { TimeSlice } from '../../base/timing.ts';
import type { AuditEvent } from '../../server/audit/event.ts';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import type { Caller } from '../../server/identity/caller.ts';
import { tokenJson } from '../../server/identity/named-tokens.ts';
import { maskRecord } from '../../server/records/mask.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { idOf, type StoreStamps } from '../../server/records/record-kind.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { TaskRecord } from '../../server/records/task.ts';
import type { TokenRecord } from '../../server/records/token.ts';
import { changedFields } from '../../server/store/directory/directory.ts';
import { type RegistryStore, StoreError, type StoreReader } from '../../server/store/store.ts';

/** Ids that one line names; the rest is a number. */
const MAX_IDS = 100;

interface RecordChange {
  readonly action: 'create' | 'update' | 'delete';
  readonly revision: number;
  readonly fields: readonly string[];
  readonly before: object | null;
  readonly after: object | null;
}

/** How the trail tells of a kind of record. */
interface KindWords<R> {
  readonly started: (caller: Caller, ids: readonly string[], changes: number) => AuditEvent;
  readonly changed: (caller: Caller, id: string, change: RecordChange) => AuditEvent;
  /** Without what may be secret. */
  readonly shown: (record: R) => object;
  /** Whether what the record is of is there: some leave a record behind. @default it is */
  readonly isThere?: (record: R) => boolean;
}

/** A store whose changes are in the audit log: each change names its caller. */
export interface AuditedStore<R extends StoreStamps = McpServerRecord> extends StoreReader<R> {
  /** The store for changes that this caller makes. */
  as(caller: Caller): RegistryStore<R>;
}

/** The same store; every change that goes through it is in the trail: who made it, what was there, what is there now. */
export function auditedStore(store: RegistryStore, trail: SmsTrail): AuditedStore {
  return audited(store, trail, {
    started: (caller, servers, changes) => ({ event: 'sms.write_started', ...caller, servers, changes }),
    changed: (caller, server_id, change) => ({ event: 'sms.record_changed', ...caller, server_id, ...change }),
    shown: (record: McpServerRecord) => maskRecord(record),
  });
}

export function auditedProfiles(store: RegistryStore<McpProfile>, trail: SmsTrail): AuditedStore<McpProfile> {
  return audited(store, trail, {
    started: (caller, profiles, changes) => ({ event: 'sms.profile_write_started', ...caller, profiles, changes }),
    changed: (caller, profile, change) => ({ event: 'sms.profile_changed', ...caller, profile, ...change }),
    shown: (profile: McpProfile) => profile,
  });
}

export function auditedTokens(store: RegistryStore<TokenRecord>, trail: SmsTrail): AuditedStore<TokenRecord> {
  return audited(store, trail, {
    started: (caller, tokens, changes) => ({ event: 'sms.token_write_started', ...caller, tokens, changes }),
    changed: (caller, token, change) => ({ event: 'sms.token_changed', ...caller, token, ...change }),
    shown: tokenJson,
  });
}

export function auditedStops(store: RegistryStore<StopRecord>, trail: SmsTrail): AuditedStore<StopRecord> {
  return audited(store, trail, {
    started: (caller, stops, changes) => ({ event: 'sms.stop_write_started', ...caller, stops, changes }),
    changed: (caller, stop_id, change) => ({ event: 'sms.stop_changed', ...caller, stop_id, ...change }),
    shown: ({ scope, name, effect, reason }: StopRecord) => ({ scope, name, effect, reason }),
  });
}

/** Nothing of its content: what a revision says is read by its number. */
export function auditedTasks(store: RegistryStore<TaskRecord>, trail: SmsTrail): AuditedStore<TaskRecord> {
  return audited(store, trail, {
    started: (caller, tasks, changes) => ({ event: 'sms.task_write_started', ...caller, tasks, changes }),
    changed: (caller, task_id, change) => ({ event: 'sms.task_changed', ...caller, task_id, ...change }),
    shown: ({ live, from_file }: TaskRecord) => ({
      live: live && { revision: live.revision, digest: live.digest, wasm: live.wasm },
      from_file,
    }),
    isThere: ({ live }) => live !== null,
  });
}

function audited<R extends StoreStamps>(
  store: RegistryStore<R>,
  trail: SmsTrail,
  words: KindWords<R>,
): AuditedStore<R> {
  const permit = async (caller: Caller, ids: readonly string[]) => {
    if (await trail.allowsWrite(() => words.started(caller, ids.slice(0, MAX_IDS), ids.length))) return;
    const why = 'the audit log cannot be written, and nothing can change without it (audit.on_failure)';
    throw new StoreError('not_stored', why);
  };
  const tell = (caller: Caller, id: string, before: R | null, after: R | null, revision: number): void => {
    trail.write(words.changed(caller, id, { revision, ...difference(words, there(before), there(after)) }));
  };
  /** Until the changes before are in the log; null: they are. A large one is written in several turns of the event loop. */
  let earlier: Promise<void> | null = null;
  /** The log has changes in the order of their revisions, so that after a kill none is missing before one that is there. */
  const inOrder = async (work: () => Promise<void> | void): Promise<void> => {
    const written = earlier === null ? work() : earlier.then(work, work);
    if (written === undefined) return;
    earlier = written;
    try {
      await written;
    } finally {
      if (earlier === written) earlier = null;
    }
  };
  const there = (record: R | null) => (record !== null && (words.isThere?.(record) ?? true) ? record : null);

  /**
   * What is there now. It is known as soon as a change that is asked for in the same turn is made, and nothing comes
   * between the two; to wait for it as well would let a later change be told first.
   */
  const reading = (id: string): (() => R | null) => {
    let found: R | null = null;
    // A store that cannot be read fails the change, which says why.
    store.get(id).then(
      (record) => {
        found = record;
      },
      () => {},
    );
    return () => found;
  };

  const reader: StoreReader<R> = {
    kind: store.kind,
    epoch: () => store.epoch(),
    revision: () => store.revision(),
    list: () => store.list(),
    get: (id) => store.get(id),
    origins: () => store.origins(),
    watch: (since, signal) => store.watch(since, signal),
    upToDate: () => store.upToDate(),
    currencyProblem: () => store.currencyProblem(),
    close: () => store.close(),
  };
  const as = (caller: Caller): RegistryStore<R> => ({
    ...reader,

    async upsert(record, options) {
      const id = idOf(store.kind, record);
      await permit(caller, [id]);
      const before = reading(id);
      const result = await store.upsert(record, options);
      if (result.changed) await inOrder(() => tell(caller, id, before(), result.record, result.revision));
      return result;
    },

    async remove(id, options) {
      await permit(caller, [id]);
      const before = reading(id);
      const revision = await store.remove(id, options);
      await inOrder(() => tell(caller, id, before(), null, revision));
      return revision;
    },

    async apply(changes) {
      const ids = changes.map((change) => ('remove' in change ? change.remove : idOf(store.kind, change.upsert)));
      await permit(caller, ids);
      const before = new Map((await store.list()).records.map((record) => [idOf(store.kind, record), record]));
      const result = await store.apply(changes);
      await inOrder(async () => {
        const slice = new TimeSlice();
        for (const [index, id] of ids.entries()) {
          if (slice.isOver) await slice.yield();
          const [was, is] = [before.get(id) ?? null, result.records[index] ?? null];
          if (is === null || is.mod_revision !== was?.mod_revision)
            tell(caller, id, was, is, is?.mod_revision ?? result.revision);
        }
      });
      return result;
    },
  });
  return { ...reader, as };
}

function difference<R extends StoreStamps>(
  { shown }: KindWords<R>,
  before: R | null,
  after: R | null,
): Omit<RecordChange, 'revision'> {
  if (before !== null && after !== null) {
    const fields = changedFields(before, after);
    const only = (record: R) =>
      Object.fromEntries(Object.entries(shown(record)).filter(([name]) => fields.includes(name)));
    return { action: 'update', fields, before: only(before), after: only(after) };
  }
  const action = after === null ? 'delete' : 'create';
  return { action, fields: [], before: before && shown(before), after: after && shown(after) };
}
