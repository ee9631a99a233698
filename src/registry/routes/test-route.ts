import { jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { knownSecrets, redactStrings } from '../../server/secrets/redactor.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { ServerTestResult } from '../server-test.ts';
import type { Route } from './http-listener.ts';
import { ADMIN_PATH } from './servers-routes.ts';

export type TestServer = (record: McpServerRecord, signal: AbortSignal) => Promise<ServerTestResult>;

/** Each is a process or a connection of its own. */
const MAX_TESTS_AT_ONCE = 4;

/** `POST /servers/{id}/test` runs a server on this machine. `test` is null where the config does not allow that. */
export function testRoute(store: StoreReader, test: TestServer | null): Route {
  let running = 0;
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/servers/{id}/test`,
    needs: 'operate',
    async run({ id, signal }) {
      if (test === null) {
        const detail =
          'a test runs the server on the host of the registry, and mcp.allow_server_test is off; use: spear servers test';
        throw new HttpProblem(403, 'server-test-off', detail);
      }
      const record = await store.get(id);
      if (record === null) throw new HttpProblem(404, 'no-such-server', 'there is no such server');
      if (running >= MAX_TESTS_AT_ONCE) {
        throw new HttpProblem(503, 'too-many-tests', `${MAX_TESTS_AT_ONCE} tests are already running; try again`);
      }
      running += 1;
      try {
        return jsonReply(200, redactStrings(await test(record, signal), knownSecrets.redact));
      } finally {
        running -= 1;
      }
    },
  };
}
