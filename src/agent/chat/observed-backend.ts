import { isJsonObject } from '../../base/json.ts';
import { knownSecrets } from '../../server/secrets/redactor.ts';
import type { GuestMetrics } from '../../server/telemetry/guest-metrics.ts';
import { BackendError, type ChatBackend, toErrorBody } from './backend.ts';

export interface ModelTraceOptions {
  /** Name of the run, written to every line. */
  readonly run: string;
  /** Writes one line of JSON without a line break. Known secrets are redacted. */
  readonly write: (line: string) => void;
}

/**
 * Wraps backends to trace each exchange as two lines with the same ordinal: the request, and the answer or error. Retries
 * inside a backend are part of one exchange.
 */
export function traceModel({ run, write }: ModelTraceOptions): (backend: ChatBackend) => ChatBackend {
  let exchanges = 0;
  return (backend) => ({
    name: backend.name,
    model: backend.model,
    images: backend.images,
    complete: async (request, signal, by) => {
      const startedAt = performance.now();
      const about = { run, session: by?.session ?? null, ordinal: ++exchanges, backend: backend.name };
      const note = (what: object) => write(knownSecrets.json({ time: new Date().toISOString(), ...about, ...what }));
      const took = () => ({ duration_ms: Math.round(performance.now() - startedAt) });
      note({ request });
      try {
        const answer = await backend.complete(request, signal, by);
        note({ answer, ...took() });
        return answer;
      } catch (error) {
        note({ ...(signal.aborted ? abortedBy(signal) : toErrorBody(error)), ...took() });
        throw error;
      }
    },
    close: () => backend.close(),
  });
}

/** The error of an aborted request: the backend's own error if it ended the request, else `cancelled`. */
function abortedBy({ reason }: AbortSignal): object {
  if (reason instanceof BackendError) return toErrorBody(reason);
  return { error: { code: 'cancelled', message: reason instanceof Error ? reason.message : String(reason) } };
}

/** Wraps a backend to count its answers and errors. */
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
