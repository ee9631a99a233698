import type { TaskRequests } from '../../server/routes/task-requests.ts';
import { type TaskRoute, taskRoutes } from '../../server/routes/task-routes.ts';
import { TaskError } from '../../server/tasks/task-error.ts';
import type { NodeRoute } from './node-route.ts';

/** The tasks of a node and their modules. `elsewhere`: where they are changed, if that is not here. */
export function nodeTaskRoutes(requests: TaskRequests, elsewhere: string | null): NodeRoute[] {
  return taskRoutes(requests).map(
    ({ access, run, ...route }: TaskRoute): NodeRoute => ({
      ...route,
      needs: access === 'read' ? 'view' : 'operate',
      run: (call) => {
        if (access === 'change' && elsewhere !== null) throw new TaskError('elsewhere', elsewhere);
        return run(call);
      },
    }),
  );
}
