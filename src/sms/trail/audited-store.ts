import { Turns } from '../../base/turns.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import { changedFields } from '../directory.ts';
import { maskRecord } from '../mask.ts';
import {
  type ApplyResult,
  type RegistryStore,
  type StoreChange,
  StoreError,
  type UpsertOptions,
  type UpsertResult,
  type WriteOptions,
} from '../store/store.ts';
import { currentCaller } from './caller.ts';
import type { SmsTrail } from './sms-trail.ts';

/** Ids that one line names; the rest is a number. */
const MAX_IDS = 100;

/** The same store; every change that goes through it is in the trail: who made it, what was there, what is there now. */
export function auditedStore(store: RegistryStore, trail: SmsTrail): RegistryStore {
  const permit = async (ids: readonly string[]) => {
    const servers = ids.slice(0, MAX_IDS);
    const announcement = () =>
      ({ event: 'sms.write_started', ...currentCaller(), servers, changes: ids.length }) as const;
    if (await trail.allowsWrite(announcement)) return;
    const why = 'the audit trail cannot be written, and nothing is changed without it (audit.on_failure)';
    throw new StoreError('not_stored', why);
  };

  return {
    epoch: () => store.epoch(),
    revision: () => store.revision(),
    list: () => store.list(),
    get: (id) => store.get(id),
    origins: () => store.origins(),
    watch: (since, signal) => store.watch(since, signal),
    close: () => store.close(),

    async upsert(record: McpServerRecord, options?: UpsertOptions): Promise<UpsertResult> {
      await permit([record.server_id]);
      // Asked for in one turn, so nothing comes between the two.
      const [before, result] = await Promise.all([store.get(record.server_id), store.upsert(record, options)]);
      if (result.changed) tell(trail, before, result.record, result.revision);
      return result;
    },

    async remove(serverId: string, options?: WriteOptions): Promise<number> {
      await permit([serverId]);
      const [before, revision] = await Promise.all([store.get(serverId), store.remove(serverId, options)]);
      tell(trail, before, null, revision, serverId);
      return revision;
    },

    async apply(changes: readonly StoreChange[]): Promise<ApplyResult> {
      const ids = changes.map((change) => ('remove' in change ? change.remove : change.upsert.server_id));
      await permit(ids);
      const before = new Map((await store.list()).servers.map((record) => [record.server_id, record]));
      const result = await store.apply(changes);
      const turns = new Turns();
      for (const [index, id] of ids.entries()) {
        if (turns.over) await turns.next();
        const [was, is] = [before.get(id) ?? null, result.records[index] ?? null];
        if (is === null || is.mod_revision !== was?.mod_revision) {
          tell(trail, was, is, is?.mod_revision ?? result.revision, id);
        }
      }
      return result;
    },
  };
}

function tell(
  trail: SmsTrail,
  before: McpServerRecord | null,
  after: McpServerRecord | null,
  revision: number,
  server_id = after?.server_id ?? '',
): void {
  const about = { event: 'sms.record_changed', ...currentCaller(), server_id, revision } as const;
  if (before !== null && after !== null) {
    const fields = changedFields(before, after);
    const only = (record: McpServerRecord) =>
      Object.fromEntries(Object.entries(maskRecord(record)).filter(([name]) => fields.includes(name)));
    trail.write({ ...about, action: 'update', fields, before: only(before), after: only(after) });
    return;
  }
  const action = after === null ? 'delete' : 'create';
  const masked = (record: McpServerRecord | null) => (record === null ? null : maskRecord(record));
  trail.write({ ...about, action, fields: [], before: masked(before), after: masked(after) });
}
