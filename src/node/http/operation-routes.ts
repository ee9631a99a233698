import { openApiDocument } from '../../server/http/openapi.ts';
import { PROMETHEUS_CONTENT_TYPE } from '../../server/telemetry/prometheus.ts';
import type { NodeMetrics } from '../node-metrics.ts';
import { jsonReply, type NodeRoute } from './node-route.ts';

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
