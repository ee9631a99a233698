import { taskRecordSchema } from '../../config/task-document.ts';
import type { RouteDoc } from '../http/openapi.ts';
import type { Caller } from '../identity/caller.ts';
import type { NamedTask } from '../tasks/task-book.ts';
import {
  BLOB_PATH,
  MAX_BLOB_BYTES,
  MAX_TASK_BYTES,
  onlyNamespaceOf,
  PROMOTE_PATH,
  shownTask,
  shownTasks,
  TASK_PATH,
  TASKS_PATH,
  type TaskCaller,
  type TaskRequests,
} from './task-requests.ts';

/** Context of one request about tasks, in the registry and in the node. */
export interface TaskCall {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly identity: TaskCaller;
  /** The caller as functions that decide take it, and as the audit log has it. */
  readonly caller: Caller;
  /** At most `maxBytes`, else 413. */
  bytes(maxBytes: number): Promise<Uint8Array>;
}

export interface TaskReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export interface TaskRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path parameters are written `{name}`; the listener checks `{namespace}` against the caller. */
  readonly path: string;
  readonly access: 'read' | 'change';
  readonly doc: RouteDoc;
  run(call: TaskCall): Promise<TaskReply>;
}

const problem = { what: 'a problem (RFC 9457)', type: 'application/problem+json' };
const WASM = 'application/wasm';

/** The HTTP API of tasks and modules, in the registry and in the node. */
export function taskRoutes(requests: TaskRequests): TaskRoute[] {
  return [
    {
      method: 'GET',
      path: TASKS_PATH,
      access: 'read',
      doc: {
        summary: 'Lists tasks',
        answers: { 200: { what: 'the tasks of the namespaces that the caller may read', schema: shownTasks } },
      },
      run: async ({ identity }) => json(200, await requests.list(onlyNamespaceOf(identity))),
    },
    {
      method: 'GET',
      path: TASK_PATH,
      access: 'read',
      doc: {
        summary: 'Returns a task with all its revisions',
        answers: { 200: { what: 'the task', schema: shownTask }, 404: problem },
      },
      run: async ({ params }) => json(200, await requests.get(named(params))),
    },
    {
      method: 'PUT',
      path: TASK_PATH,
      access: 'change',
      doc: {
        summary:
          'Applies a task: a change creates a new revision, which becomes live. Upload its module as a blob first',
        body: { type: 'application/json', schema: taskRecordSchema },
        answers: { 200: { what: 'the task and the outcome of the request', schema: shownTask }, 400: problem },
      },
      run: async (call) =>
        json(
          200,
          await requests.applyJson(named(call.params), await call.bytes(MAX_TASK_BYTES), call.identity, call.caller),
        ),
    },
    {
      method: 'POST',
      path: PROMOTE_PATH,
      access: 'change',
      doc: {
        summary: 'Makes a newer or older revision the live one',
        query: { revision: 'revision number' },
        answers: { 200: { what: 'the task', schema: shownTask }, 404: problem },
      },
      run: async ({ params, query, caller }) =>
        json(200, await requests.promote(named(params), query.get('revision'), caller)),
    },
    {
      method: 'DELETE',
      path: TASK_PATH,
      access: 'change',
      doc: {
        summary: 'Removes a task; its runs continue',
        answers: { 200: { what: 'the name of the removed task' }, 404: problem },
      },
      run: async ({ params, caller }) => json(200, await requests.remove(named(params), caller)),
    },
    {
      method: 'PUT',
      path: BLOB_PATH,
      access: 'change',
      doc: {
        summary: 'Stores a module under its sha256',
        body: { type: WASM },
        answers: { 201: { what: 'the module is stored' }, 400: problem },
      },
      run: async (call) =>
        json(201, await requests.putBlob(call.params.sha256 ?? '', call.identity, () => call.bytes(MAX_BLOB_BYTES))),
    },
    {
      method: 'GET',
      path: BLOB_PATH,
      access: 'read',
      doc: {
        summary: 'Returns the module of a task that the caller may read',
        answers: { 200: { what: 'the module', type: WASM }, 404: problem },
      },
      run: async ({ params, identity }) => {
        const body = await requests.blob(params.sha256 ?? '', identity);
        return { status: 200, headers: { 'content-type': WASM }, body };
      },
    },
  ];
}

const named = ({ namespace = '', name = '' }: TaskCall['params']): NamedTask => ({ namespace, name });

function json(status: number, value: unknown): TaskReply {
  return { status, headers: { 'content-type': 'application/json' }, body: `${JSON.stringify(value)}\n` };
}
