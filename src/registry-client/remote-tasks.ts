import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { TaskRecordService, type TaskRecord as WireTask } from '../generated/proto/sms/task_records_pb.ts';
import type { RegistryListing } from '../server/records/record-kind.ts';
import { revisionId, type TaskRecord, type TaskRevision, taskKind, taskRevisionKind } from '../server/records/task.ts';
import { wireToRevisionInput, wireToTaskInput } from '../server/records/wire.ts';
import type { RegistryWatchItem } from './source.ts';
import type { TaskPort } from './task-port.ts';
import { type OnInvalidRecord, WireRecords } from './wire-records.ts';

/** The tasks of an SMS over the network. */
export class RemoteTasks implements TaskPort {
  readonly canWatchRecords = true;
  readonly #client: Client<typeof TaskRecordService>;
  readonly #records: WireRecords<WireTask, TaskRecord>;
  readonly #explain: (error: unknown) => never;

  constructor(transport: Transport, onInvalid: OnInvalidRecord, explain: (error: unknown) => never) {
    this.#client = createClient(TaskRecordService, transport);
    this.#records = new WireRecords(
      { kind: taskKind, idOf: ({ taskId }) => taskId, input: wireToTaskInput },
      onInvalid,
    );
    this.#explain = explain;
  }

  async list(signal: AbortSignal): Promise<RegistryListing<TaskRecord>> {
    const response = await this.#client.listTaskRecords({}, { signal }).catch(this.#explain);
    const records = await this.#records.readAll(response.epoch, response.tasks, signal);
    return { epoch: response.epoch, revision: Number(response.revision), records };
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<TaskRecord>> {
    try {
      for await (const { event } of this.#client.watchTaskRecords({ sinceRevision: BigInt(since) }, { signal })) {
        if (event === undefined) continue;
        if (event.heartbeat) yield { heartbeat: true, epoch: event.epoch, revision: Number(event.revision) };
        else yield await this.#records.readEvent(event, signal);
      }
    } catch (error) {
      this.#explain(error);
    }
  }

  async revision(taskId: string, revision: number, signal: AbortSignal): Promise<TaskRevision | null> {
    const response = await this.#client
      .getTaskRevision({ taskId, revision: BigInt(revision) }, { signal })
      .catch((error: unknown) => {
        if (error instanceof ConnectError && error.code === Code.NotFound) return null;
        return this.#explain(error);
      });
    if (response?.revision === undefined) return null;
    const input = { ...wireToRevisionInput(response.revision), revision_id: revisionId(taskId, revision) };
    const parsed = taskRevisionKind.parse(input, { strict: false });
    if (!parsed.ok) {
      const [issue] = parsed.issues;
      throw new Error(`${revisionId(taskId, revision)} is not valid: ${issue?.path ?? ''} ${issue?.message ?? ''}`);
    }
    return parsed.record;
  }

  async module(sha256: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const { chunk } of this.#client.readTaskModule({ sha256 }, { signal })) {
        bytes += chunk.byteLength;
        if (bytes > maxBytes) throw new Error(`the module ${sha256} has more than ${maxBytes} bytes`);
        chunks.push(chunk);
      }
    } catch (error) {
      this.#explain(error);
    }
    return Buffer.concat(chunks);
  }
}
