import { z } from 'zod';
import { HttpProblem } from '../../server/http/problem.ts';
import type { RunQueue } from '../../server/queue/run-queue.ts';
import { found } from '../../server/routes/found-run.ts';
import { RUN_PATH } from '../../server/routes/run-route.ts';
import { type RunStreams, SESSION_MS } from '../run-streams.ts';
import { jsonReply, type NodeRoute } from './node-route.ts';

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
      const run = await found(queue, call);
      const { id } = run;
      const why = streams.whyNot(run);
      if (why !== null) throw new HttpProblem(409, 'not-running', why);
      const token = streams.session(id, { name: call.caller.name, whileValid: call.whileValid });
      const path = `/api/v1/executions/${id}/streams/ws?token=${token}`;
      return jsonReply(201, { token, path, expires_in_s: SESSION_MS / 1000 } satisfies z.infer<typeof session>);
    },
  };
}
