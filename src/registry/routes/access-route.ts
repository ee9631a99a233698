import type { RegistryView } from '../../agent/policy/decision.ts';
import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ToolReport } from '../../registry-client/node-report.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { jsonBody } from '../../server/http/route.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { NodeReports } from '../node-reports.ts';
import type { TaskQuestion } from '../policy-matrix.ts';
import { ADMIN_PATH } from './servers-routes.ts';

export interface AccessRouteDeps {
  readonly store: StoreReader;
  readonly profiles: StoreReader<McpProfile>;
  readonly reports: NodeReports;
}

const MAX_BODY_BYTES = 1024 * 1024;
const MAX_TASKS = 20;
/** Each asks every layer about every tool that is known. */
const MAX_AT_ONCE = 2;
const MAX_NAME_CHARS = 100;

/**
 * `POST /access` with `{tasks: [{name, config}]}`: which servers each would have and why; with `server_id` also, the
 * tools of that server. Reads alone, so it may be asked by whoever may look.
 */
export function accessRoute(deps: AccessRouteDeps): Route {
  let running = 0;
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/access`,
    needs: 'view',
    isQuestion: true,
    async run(call) {
      const { tasks: given, server_id: serverId } = await jsonBody(call, MAX_BODY_BYTES);
      const tasks = tasksOf(given);
      if (running >= MAX_AT_ONCE)
        throw new HttpProblem(503, 'too-many-questions', 'too many access queries are running; try again');
      running += 1;
      try {
        return await answer(deps, tasks, serverId, call.signal);
      } finally {
        running -= 1;
      }
    },
  };
}

async function answer(
  deps: AccessRouteDeps,
  tasks: readonly TaskQuestion[],
  serverId: JsonValue | undefined,
  signal: AbortSignal,
): Promise<HttpReply> {
  const { view, revision } = await viewOf(deps);
  const { accessMatrix, accessOfServer } = await import('../policy-matrix.ts');
  if (serverId === undefined) {
    const seen = deps.reports.byServer();
    const known = (id: string) => toolsOf(deps.reports, seen.get(id) ?? []);
    return jsonReply(200, await accessMatrix(view, revision, tasks, known, signal));
  }
  const record = typeof serverId === 'string' ? view.servers.get(serverId) : undefined;
  if (record === undefined) throw new HttpProblem(404, 'no-such-server', 'there is no such server');
  const tools = toolsOf(deps.reports, deps.reports.ofServer(record.server_id));
  return jsonReply(200, accessOfServer(view, record, tasks, tools));
}

function tasksOf(given: JsonValue | undefined): TaskQuestion[] {
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_TASKS) {
    throw new HttpProblem(400, 'invalid-body', `tasks: must be a list of 1 to ${MAX_TASKS} tasks`);
  }
  return given.map((task, index) => {
    if (!isJsonObject(task) || typeof task.name !== 'string' || task.name.length > MAX_NAME_CHARS) {
      throw new HttpProblem(
        400,
        'invalid-body',
        `tasks[${index}]: must have a name of at most ${MAX_NAME_CHARS} characters`,
      );
    }
    if (!isJsonObject(task.config)) {
      throw new HttpProblem(400, 'invalid-body', `tasks[${index}].config: must be an object, as in a task file`);
    }
    return { name: task.name, config: task.config };
  });
}

/** The registry as a node sees it that is in step. */
async function viewOf({ store, profiles }: AccessRouteDeps): Promise<{ view: RegistryView; revision: number }> {
  const [{ revision, records }, known] = await Promise.all([store.list(), profiles.list()]);
  const byName = new Map(known.records.map((profile) => [profile.name, profile]));
  const servers = new Map(records.map((record) => [record.server_id, record]));
  return { revision, view: { servers, stale: false, profiles: { byName, stale: false } } };
}

/** All tools that some node was given, by name; null: no node has told of any. */
function toolsOf(reports: NodeReports, views: ReturnType<NodeReports['ofServer']>): readonly ToolReport[] | null {
  const lists = [...new Set(views.flatMap((view) => reports.toolsOf(view) ?? []))];
  if (!views.some((view) => reports.toolsOf(view) !== null)) return null;
  const byName = new Map(lists.map((tool) => [tool.name, tool]));
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
