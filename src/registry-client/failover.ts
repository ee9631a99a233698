import { Code, ConnectError } from '@connectrpc/connect';
import type { RegistryListing } from '../server/records/record-kind.ts';
import { ApprovalRejected } from './ports.ts';
import type { RemoteSource } from './remote-source.ts';
import { RegistryRefused, type RegistrySource, type RegistryWatchItem } from './source.ts';

/** Several registries on one store as one source: a call that one does not answer goes to the next. */
export function failoverSource(sources: readonly [RemoteSource, ...RemoteSource[]]): RemoteSource {
  if (sources.length === 1) return sources[0];
  const picker = new Picker(sources.length);
  return Object.assign(new FollowedSource(sources, picker), {
    ...callsOf(picker, sources, ['report', 'reportRuns']),
    profiles: new FollowedSource(
      sources.map(({ profiles }) => profiles),
      picker,
    ),
    stops: new FollowedSource(
      sources.map(({ stops }) => stops),
      picker,
    ),
    identities: callsOf(
      picker,
      sources.map(({ identities }) => identities),
      ['identify', 'issuer'],
    ),
    tasks: (onInvalid: Parameters<RemoteSource['tasks']>[0]) => {
      const ports = sources.map((source) => source.tasks(onInvalid));
      return Object.assign(new FollowedSource(ports, picker), callsOf(picker, ports, ['revision', 'module']));
    },
    approvals: (nodeId: string) => {
      const ports = sources.map((source) => source.approvals(nodeId));
      return {
        // A claim may be sent twice: repeating a granted claim returns the same grant.
        ...callsOf(picker, ports, ['open', 'claim', 'withdraw', 'waiting', 'withdrawAll']),
        ...streamsOf(picker, ports, ['decided']),
      };
    },
    close() {
      for (const source of sources) source.close();
    },
  });
}

/** Picks one of several registries. All ports of a source share a picker, so that they fail over together. */
class Picker {
  readonly #count: number;
  #current = 0;

  constructor(count: number) {
    this.#count = count;
  }

  get current(): number {
    return this.#current;
  }

  /** Registry `index` failed: picks the next one, unless another call has already done so. */
  fail(index: number): void {
    if (this.#current === index) this.#current = (index + 1) % this.#count;
  }

  /** Calls one registry after another until one answers. */
  async call<T>(signal: AbortSignal, call: (index: number) => Promise<T>): Promise<T> {
    const failures: unknown[] = [];
    for (;;) {
      const index = this.#current;
      try {
        return await call(index);
      } catch (error) {
        failures.push(error);
        this.fail(index);
        // The next registry would reject the request as well.
        if (signal.aborted || error instanceof ApprovalRejected) throw error;
        // The node is refused only if all of them refuse it.
        if (failures.length >= this.#count) throw failures.find((one) => !(one instanceof RegistryRefused)) ?? error;
      }
    }
  }
}

type PortMethod<Result> = (...args: never[]) => Result;
type NamesOf<Port, Result> = { [Name in keyof Port]: Port[Name] extends PortMethod<Result> ? Name : never }[keyof Port];

/** Methods whose last argument is an AbortSignal, each called on one port after another until one answers. */
function callsOf<Port, Name extends NamesOf<Port, Promise<unknown>>>(
  picker: Picker,
  ports: readonly Port[],
  names: readonly Name[],
): Pick<Port, Name> {
  const forward = (name: Name) => {
    return (...args: unknown[]) =>
      picker.call(args.at(-1) as AbortSignal, (index) => method<Promise<unknown>>(ports, index, name)(...args));
  };
  return Object.fromEntries(names.map((name) => [name, forward(name)])) as unknown as Pick<Port, Name>;
}

/** Streams of the current registry. A stream that fails is not continued on the next one: the caller opens it again. */
function streamsOf<Port, Name extends NamesOf<Port, AsyncIterable<unknown>>>(
  picker: Picker,
  ports: readonly Port[],
  names: readonly Name[],
): Pick<Port, Name> {
  const forward = (name: Name) =>
    async function* (...args: unknown[]) {
      const index = picker.current;
      try {
        yield* method<AsyncIterable<unknown>>(ports, index, name)(...args);
      } catch (error) {
        picker.fail(index);
        throw error;
      }
    };
  return Object.fromEntries(names.map((name) => [name, forward(name)])) as unknown as Pick<Port, Name>;
}

function method<Result>(ports: readonly unknown[], index: number, name: PropertyKey): (...args: unknown[]) => Result {
  const port = at(ports, index) as Record<PropertyKey, (...args: unknown[]) => Result>;
  const found = port[name];
  if (found === undefined) throw new Error(`a registry has no method ${String(name)}`);
  return found.bind(port);
}

/** The records of one kind. A watch continues on the next registry, because all have the same epoch and revisions. */
class FollowedSource<R> implements RegistrySource<R> {
  readonly #sources: readonly RegistrySource<R>[];
  readonly #picker: Picker;
  /** The registry that answered last. */
  #answered = 0;

  constructor(sources: readonly RegistrySource<R>[], picker: Picker) {
    this.#sources = sources;
    this.#picker = picker;
  }

  get canWatchRecords(): boolean {
    return at(this.#sources, this.#answered).canWatchRecords;
  }

  list(signal: AbortSignal): Promise<RegistryListing<R>> {
    return this.#picker.call(signal, async (index) => {
      const listing = await at(this.#sources, index).list(signal);
      this.#answered = index;
      return listing;
    });
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<R>> {
    let reached = since;
    for (let failures = 0; ; ) {
      const index = this.#picker.current;
      try {
        for await (const item of at(this.#sources, index).watch(reached, signal)) {
          failures = 0;
          reached = item.revision;
          this.#answered = index;
          yield item;
        }
        throw new Error('the watch stream ended');
      } catch (error) {
        this.#picker.fail(index);
        failures++;
        if (signal.aborted || mustListAgain(error) || failures >= this.#sources.length) throw error;
      }
    }
  }
}

/** The registry answered that it cannot continue the watch from this revision. */
function mustListAgain(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof ConnectError && cause.code === Code.FailedPrecondition;
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error('no registry address is configured');
  return found;
}
