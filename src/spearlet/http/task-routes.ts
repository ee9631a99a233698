import { hash } from 'node:crypto';
import { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { taskRecordSchema } from '../../config/task/schema.ts';
import { limitSpecs } from '../../protocol/limits.ts';
import type { TaskRevision } from '../../protocol/task.ts';
import { HttpProblem } from '../../sms/http/problem.ts';
import { type Admission, admitTask } from '../tasks/admit-task.ts';
import type { Blobs } from '../tasks/blobs.ts';
import { TaskError } from '../tasks/task-error.ts';
import { type Task, type TaskStore, unknownTask } from '../tasks/task-store.ts';
import { jsonReply, type NodeCall, type NodeRoute } from './node-route.ts';

export interface TaskRoutesDeps {
  readonly tasks: TaskStore;
  readonly blobs: Blobs;
  readonly admission: Admission;
}

const TASKS_PATH = '/admin/api/tasks';
const TASK_PATH = `${TASKS_PATH}/{namespace}/{name}`;
const MAX_TASK_BYTES = 1024 * 1024;
const MASK = '********';
const SHA256 = /^(?:sha256:)?([0-9a-f]{64})$/;

const shownTask = z.object({
  namespace: z.string(),
  name: z.string(),
  live: z.int().meta({ description: 'the revision that submitted runs get' }),
  revisions: z.int(),
  wasm: z.string().meta({ description: 'sha256 of the module of the live revision' }),
  digest: z.string().meta({ description: 'sha256 of the content of the live revision' }),
  description: z.string(),
  pool: z.string(),
  from: z.string().nullable().meta({ description: 'the file that it comes from; null: it was applied' }),
  created_at_ms: z.int(),
  created_by: z.string(),
});
const taskList = z.object({ tasks: z.array(shownTask) });
const problem = { what: 'a problem (RFC 9457)', type: 'application/problem+json' };

/** The tasks of a node and their modules. */
export function taskRoutes({ tasks, blobs, admission }: TaskRoutesDeps): NodeRoute[] {
  return [
    {
      method: 'GET',
      path: TASKS_PATH,
      needs: 'submitter',
      doc: {
        summary: 'All tasks',
        answers: { 200: { what: 'those of the namespaces that the caller may see', schema: taskList } },
      },
      run: async ({ caller }) => jsonReply(200, { tasks: tasks.list(caller.namespace).map(shown) }),
    },
    {
      method: 'GET',
      path: TASK_PATH,
      needs: 'submitter',
      doc: {
        summary: 'A task with all its revisions',
        answers: { 200: { what: 'the task', schema: shownTask }, 404: problem },
      },
      run: async ({ params }) => {
        const task = tasks.find(named(params));
        if (task === null) throw unknownTask(named(params));
        return jsonReply(200, { ...shown(task), all: tasks.revisions(task).map(masked) });
      },
    },
    {
      method: 'PUT',
      path: TASK_PATH,
      needs: 'admin',
      doc: {
        summary: 'Applies a task: what changed is a new revision, and live. Its module is put as a blob first',
        body: { type: 'application/json', schema: taskRecordSchema },
        answers: { 200: { what: 'the task, and what became of it', schema: shownTask }, 400: problem },
      },
      run: async (call) => jsonReply(200, await apply(call, { tasks, blobs, admission })),
    },
    {
      method: 'POST',
      path: `${TASK_PATH}/promote`,
      needs: 'admin',
      doc: {
        summary: 'Makes a revision the live one, a newer or an older',
        query: { revision: 'its number' },
        answers: { 200: { what: 'the task', schema: shownTask }, 404: problem },
      },
      run: async ({ params, query }) =>
        jsonReply(200, shown(tasks.promote(named(params), Number(query.get('revision'))))),
    },
    {
      method: 'DELETE',
      path: TASK_PATH,
      needs: 'admin',
      doc: { summary: 'Removes a task; its runs go on', answers: { 200: { what: 'its name' }, 404: problem } },
      run: async ({ params }) => {
        tasks.remove(named(params));
        return jsonReply(200, { removed: params.name });
      },
    },
    {
      method: 'PUT',
      path: '/admin/api/blobs/{sha256}',
      needs: 'admin',
      doc: {
        summary: 'Stores a module under its sha256',
        body: { type: 'application/wasm' },
        answers: { 201: { what: 'it is stored' }, 400: problem },
      },
      run: async (call) => {
        const bytes = await call.bytes(limitSpecs.module_bytes.max);
        const sha256 = hash('sha256', bytes);
        if (sha256 !== call.params.sha256) {
          throw new HttpProblem(400, 'other-digest', `the body has the sha256 ${sha256}, not that of the path`);
        }
        blobs.put(bytes);
        return jsonReply(201, { sha256, bytes: bytes.byteLength });
      },
    },
    {
      method: 'GET',
      path: '/admin/api/blobs/{sha256}',
      needs: 'admin',
      doc: { summary: 'A module', answers: { 200: { what: 'its bytes', type: 'application/wasm' }, 404: problem } },
      run: async ({ params }) => {
        const sha256 = SHA256.exec(params.sha256 ?? '')?.[1];
        if (sha256 === undefined || !blobs.has(sha256))
          throw new HttpProblem(404, 'no-such-blob', 'there is no such module');
        return { status: 200, headers: { 'content-type': 'application/wasm' }, body: blobs.read(sha256) };
      },
    },
  ];
}

async function apply(call: NodeCall, { tasks, blobs, admission }: TaskRoutesDeps) {
  const given = parseJson(Buffer.from(await call.bytes(MAX_TASK_BYTES)).toString('utf8'));
  if (given === undefined) throw new HttpProblem(400, 'invalid-body', 'the body is not valid JSON');
  const module = async (wasm: string) => {
    const sha256 = SHA256.exec(wasm)?.[1];
    if (sha256 === undefined) throw new TaskError('invalid', 'wasm: expected sha256: and 64 hex digits');
    if (!blobs.has(sha256)) {
      throw new TaskError('invalid', `wasm: ${sha256} is not here; PUT /admin/api/blobs/${sha256} first`);
    }
    return { bytes: blobs.read(sha256), sha256 };
  };
  const { content } = await admitTask('task', given, module, admission);
  const { namespace, name } = named(call.params);
  if (content.namespace !== namespace || content.name !== name) {
    const said = `${content.namespace}/${content.name}`;
    throw new TaskError('invalid', `the body is of the task ${said}, and the path of ${namespace}/${name}`);
  }
  const { task, outcome } = tasks.apply(content, call.caller.name);
  return { ...shown(task), outcome };
}

/** Names of variables are shown, values may be somebody's secrets in the wrong place. */
const masked = (revision: TaskRevision): TaskRevision => ({
  ...revision,
  env: Object.fromEntries(Object.keys(revision.env).map((name) => [name, MASK])),
});

const named = ({ namespace = '', name = '' }: Readonly<Record<string, string>>) => ({ namespace, name });

function shown({ namespace, name, live, revisions, fromFile }: Task): z.infer<typeof shownTask> {
  const { revision, wasm, digest, description, pool, created_at_ms, created_by } = live;
  return {
    namespace,
    name,
    live: revision,
    revisions,
    wasm,
    digest,
    description,
    pool,
    from: fromFile,
    created_at_ms,
    created_by,
  };
}
