import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { Listeners } from '../../base/listeners.ts';
import {
  type Health,
  HealthCheckResponse_ServingStatus as Status,
} from '../../generated/proto/grpc/health/v1/health_pb.ts';

/** The standard health service. The empty name asks for the server as a whole. */
export function healthService(serving: ServingState, serviceNames: readonly string[]): ServiceImpl<typeof Health> {
  const known = new Set(['', ...serviceNames]);
  const status = () => (serving.isServing ? Status.SERVING : Status.NOT_SERVING);
  return {
    check({ service }) {
      if (!known.has(service)) throw new ConnectError('unknown service', Code.NotFound);
      return { status: status() };
    },
    async *watch({ service }, { signal }) {
      if (!known.has(service)) {
        // By its protocol the stream stays open, for the service may come; here it never does.
        yield { status: Status.SERVICE_UNKNOWN };
        await aborted(signal);
        return;
      }
      let last = status();
      yield { status: last };
      while (!signal.aborted) {
        await changed(serving, signal);
        // Also when it ends: that is the change that watchers wait for.
        if (last !== status()) yield { status: status() };
        last = status();
      }
    },
  };
}

function changed(serving: ServingState, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      forget();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const forget = serving.onChange(done);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Whether this process wants requests: it does not while it starts, and no longer when it is asked to end. */
export class ServingState {
  #state: 'starting' | 'serving' | 'stopping' = 'starting';
  readonly #listeners = new Listeners<void>();

  get current(): 'starting' | 'serving' | 'stopping' {
    return this.#state;
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  become(state: 'serving' | 'stopping'): void {
    this.#state = state;
    this.#listeners.notify();
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}
