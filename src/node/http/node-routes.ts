import { once } from 'node:events';
import { z } from 'zod';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { openApiDocument } from '../../server/http/openapi.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { RunQueue } from '../../server/queue/run-queue.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import { RUN_PATH, runOf } from '../../server/routes/run-route.ts';
import type { TaskRequests } from '../../server/routes/task-requests.ts';
import { type TaskRoute, taskRoutes } from '../../server/routes/task-routes.ts';
import { TaskError } from '../../server/tasks/task-book.ts';
import { PROMETHEUS_CONTENT_TYPE } from '../../server/telemetry/prometheus.ts';
import { type BackupSource, backupOf } from '../backup/node-backup.ts';
import type { NodeMetrics } from '../node-metrics.ts';
import { type RunStreams, SESSION_MS } from '../run-streams.ts';
import { jsonReply, type NodeRoute } from './node-route.ts';

/** The tasks of a node and their modules. `elsewhere`: where they are changed, if that is not here. */
export function nodeTaskRoutes(requests: TaskRequests, elsewhere: string | null): NodeRoute[] {
  return taskRoutes(requests).map(
    ({ access, run, ...route }: TaskRoute): NodeRoute => ({
      ...route,
      needs: access === 'read' ? 'view' : 'operate',
      run: (call) => {
        if (access === 'change' && elsewhere !== null) throw new TaskError('elsewhere', elsewhere);
        return run(call);
      },
    }),
  );
}

const session = z.object({ token: z.string(), path: z.string(), expires_in_s: z.int() });

/** For clients that cannot send a header with a WebSocket, such as web pages. */
export function streamSessionRoute(queue: RunQueue, streams: RunStreams): NodeRoute {
  return {
    method: 'POST',
    path: `${RUN_PATH}/streams/session`,
    needs: 'submit',
    doc: {
      summary: 'Creates a single-use token for the user stream WebSocket of a run',
      answers: {
        201: { what: 'the token and the WebSocket URL', schema: session },
        409: { what: 'the run has ended, or runs on another node', type: 'application/problem+json' },
      },
    },
    run: async (call) => {
      const run = await runOf(queue, call);
      const { id } = run;
      const why = streams.whyNot(run);
      if (why !== null) throw new HttpProblem(409, 'not-running', why);
      const token = streams.session(id, { name: call.identity.name, whileValid: call.whileValid });
      const path = `/api/v1/executions/${id}/streams/ws?token=${token}`;
      return jsonReply(201, { token, path, expires_in_s: SESSION_MS / 1000 } satisfies z.infer<typeof session>);
    },
  };
}

/** A reader that takes nothing for this long is disconnected. */
const SLOW_READER_MS = 30_000;
export const BACKUP_PATH = '/v1/backup';

/** A backup of the node, one at a time. `source` is null if the runs are in NATS. It has all journals, so the audit log records it. */
export function backupRoute(source: BackupSource | null, audit: Pick<SmsTrail, 'write'>, log: ServiceLog): NodeRoute {
  let busy = false;
  return {
    method: 'POST',
    path: BACKUP_PATH,
    needs: 'administer',
    doc: {
      summary: 'Streams a consistent backup of runs, journals, tasks and modules, as "spearlet restore" takes it',
      answers: {
        200: { what: 'a tar archive', type: 'application/x-tar' },
        409: { what: 'the runs of this node are in NATS' },
        503: { what: 'another backup is in progress' },
      },
    },
    async run({ response, signal, identity, caller }) {
      if (identity.namespace !== ALL_NAMESPACES || !identity.mayReadJournals) {
        const detail =
          'a backup has the journals of all namespaces: it needs an admin of all of them who may read journals';
        throw new HttpProblem(403, 'not-permitted', detail);
      }
      if (source === null) {
        const detail = 'the runs of this node are in NATS: back up its JetStream store, see docs/cluster.md#backup';
        throw new HttpProblem(409, 'kept-elsewhere', detail);
      }
      if (busy) throw new HttpProblem(503, 'backup-running', 'another backup is in progress');
      busy = true;
      const bytes = backupOf(source);
      try {
        const first = await bytes.next(); // fails before the status is sent
        response.writeHead(200, { 'content-type': 'application/x-tar', 'cache-control': 'no-store' });
        audit.write({ event: 'sms.served', ...caller, code: '200' });
        log('info', 'backup', { by: identity.name });
        let sent = first.done === true ? 0 : await write(first.value);
        for await (const chunk of bytes) {
          signal.throwIfAborted();
          sent += await write(chunk);
        }
        response.end();
        log('info', 'backup_done', { bytes: sent });
      } catch (error) {
        if (!response.headersSent) throw error;
        response.destroy(); // the reader finds no manifest
        log('error', 'backup_failed', { message: String(error) });
      } finally {
        await bytes.return(undefined); // removes the copies
        busy = false;
      }
      return 'streamed';

      async function write(chunk: Uint8Array): Promise<number> {
        const deadline = AbortSignal.any([signal, AbortSignal.timeout(SLOW_READER_MS)]);
        if (!response.write(chunk)) await once(response, 'drain', { signal: deadline });
        return chunk.byteLength;
      }
    },
  };
}

export interface OperationDeps {
  readonly metrics: NodeMetrics;
  /** Why this node cannot take runs; null: it can. */
  readonly notReady: () => string | null;
  /** All others, to be described. */
  readonly routes: readonly NodeRoute[];
}

const about = {
  title: 'spearlet',
  description: 'A node that runs tasks: submit, list, follow and cancel runs.',
};

/** Probes, metrics, and the description of the API: for anybody. */
export function operationRoutes({ metrics, notReady, routes }: OperationDeps): NodeRoute[] {
  let document: string | null = null;
  return [
    {
      method: 'GET',
      path: '/healthz',
      needs: 'anybody',
      doc: { summary: 'Liveness check', answers: { 200: { what: 'the process is running' } } },
      run: async () => jsonReply(200, { status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      needs: 'anybody',
      doc: {
        summary: 'Readiness check: whether runs can be submitted',
        answers: { 200: { what: 'the node is ready' }, 503: { what: 'the node is not ready, with the reason' } },
      },
      run: async () => {
        const problem = notReady();
        return problem === null
          ? jsonReply(200, { status: 'ready' })
          : jsonReply(503, { status: 'not ready', problem });
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      needs: 'anybody',
      doc: { summary: 'Metrics', answers: { 200: { what: 'metrics in Prometheus format', type: 'text/plain' } } },
      run: async () => ({
        status: 200,
        headers: { 'content-type': PROMETHEUS_CONTENT_TYPE },
        body: await metrics.text(),
      }),
    },
    {
      method: 'GET',
      path: '/openapi.json',
      needs: 'anybody',
      doc: { summary: 'This API description', answers: { 200: { what: 'OpenAPI 3.1' } } },
      run: async () => {
        document ??= JSON.stringify(openApiDocument(about, routes));
        return { status: 200, headers: { 'content-type': 'application/json' }, body: document };
      },
    },
  ];
}
