import { isJsonObject } from '../../base/json.ts';
import type { GuestMetrics } from '../../server/telemetry/guest-metrics.ts';
import { BackendError, type ChatBackend } from './backend.ts';

/** The same backend; every answer it gives is counted. */
export function meteredBackend(backend: ChatBackend, metrics: GuestMetrics): ChatBackend {
  return {
    name: backend.name,
    model: backend.model,
    images: backend.images,
    complete: async (request, signal, by) => {
      const startedAt = performance.now();
      const took = () => performance.now() - startedAt;
      try {
        const body = await backend.complete(request, signal, by);
        metrics.modelAnswered(backend.name, 'ok', took(), isJsonObject(body.usage) ? body.usage : null);
        return body;
      } catch (error) {
        const why = error instanceof BackendError ? error.code : 'failed';
        metrics.modelAnswered(backend.name, signal.aborted ? 'cancelled' : why, took(), null);
        throw error;
      }
    },
    close: () => backend.close(),
  };
}
