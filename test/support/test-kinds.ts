/** Kinds of tests, by the suffix of their file: `x.int.test.ts` is an integration test, plain `x.test.ts` a unit test. */

/** Only a test that hangs reaches these limits, however busy the machine is. */
const patient = { testTimeout: 60_000, hookTimeout: 60_000, maxConcurrency: 2, expect: { poll: { timeout: 45_000 } } };

interface Kind {
  readonly name: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly options: object;
}

/** Kinds other than unit tests. package.json says which of them `npm test` runs and which `npm run test:all`. */
const suffixes: Readonly<Record<string, string>> = {
  integration: 'int',
  smoke: 'smoke',
  e2e: 'e2e',
  browser: 'browser',
  cluster: 'cluster',
  conformance: 'conformance',
  docs: 'docs',
  package: 'package',
  torture: 'torture',
  bench: 'bench',
};

const heavy = Object.entries(suffixes).map(([name, suffix]) => ({
  name,
  include: [`test/**/*.${suffix}.test.ts`],
  exclude: [],
  // A process per file: the tests count threads, handles and child processes.
  options: { pool: 'forks', isolate: true, ...patient },
}));

const unit: Kind = {
  name: 'unit',
  include: ['test/**/*.test.ts'],
  exclude: heavy.flatMap(({ include }) => include),
  // No test of this kind may start a process, a thread or a connection, or wait for a timer (unit-guard.ts).
  options: { pool: 'threads', isolate: false, setupFiles: ['test/support/unit-guard.ts'], ...patient },
};

export const kinds: readonly Kind[] = [unit, ...heavy];
