import { identityOf } from '../../server/http/route.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { TaskRequests } from '../../server/routes/task-requests.ts';
import { taskRoutes } from '../../server/routes/task-routes.ts';
import type { Route } from './http-listener.ts';

/** Tasks and their modules, as a node serves them too. */
export function tasksRoutes(requests: TaskRequests, log: ServiceLog): Route[] {
  return taskRoutes(requests).map(({ method, path, access, doc, run }) => ({
    ...{ method, path, doc },
    needs: access === 'read' ? 'view' : 'operate',
    namespaced: true,
    run: async (call) => {
      const { params, query, caller, bytes } = call;
      const reply = await run({ params, query, identity: identityOf(call), caller, bytes });
      if (access === 'change') log('info', 'task_changed', { method: `${method} ${path}`, ...params, via: 'http' });
      return reply;
    },
  }));
}
