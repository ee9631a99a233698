import { knownSecrets } from '../../server/secrets/redactor.ts';
import { BackendError, type ChatBackend } from './backend.ts';
import { toErrorBody } from './error-body.ts';

export interface ModelTraceOptions {
  /** The name of the run, in every line. */
  readonly run: string;
  /** Takes one line of JSON, without its end and without any secret that this process knows. */
  readonly write: (line: string) => void;
}

/**
 * Lets every backend that goes through the returned function leave two lines for each exchange: the request when it is
 * made, and the answer or the error when it comes, under the same ordinal. Tries that a backend makes by itself are one.
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

/** A backend that ended the request itself said why; a send that was ended says no more than that. */
function abortedBy({ reason }: AbortSignal): object {
  if (reason instanceof BackendError) return toErrorBody(reason);
  return { error: { code: 'cancelled', message: reason instanceof Error ? reason.message : String(reason) } };
}
