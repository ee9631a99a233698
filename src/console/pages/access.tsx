import { useState } from 'preact/hooks';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { AccessJson, AccessServerJson, DecisionJson, LayerAnswerJson } from '../../registry/console-api.ts';
import type { TaskRevision } from '../../server/records/task.ts';
import { ApiError, get, post } from '../api.ts';
import { Dialog, Empty, Failure, PageHead } from '../parts.tsx';
import { counted, UntrustedText } from '../text.tsx';
import { VirtualList } from '../virtual-list.tsx';

const ROW_PX = 52;
const PATH = '/admin/api/mcp/access';
const example = `{
  "name": "review",
  "config": {
    "mcp.enabled": true,
    "mcp.default_server_ids": ["ID"]
  }
}`;

interface Shown {
  readonly title: string;
  readonly walk: readonly LayerAnswerJson[];
  readonly approval: readonly string[];
}

/** Access matrix: which tasks may use which servers and tools, and which policy layer decides. */
export function Access() {
  const [text, setText] = useState('');
  const [tasks, setTasks] = useState<readonly TaskQuestion[]>([]);
  const [page, setPage] = useState<TaskPage | null>(null);
  const [matrix, setMatrix] = useState<AccessJson | null>(null);
  const [opened, setOpened] = useState<AccessServerJson | null>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const [problem, setProblem] = useState<ApiError | null>(null);
  const ask = async (about: readonly TaskQuestion[]) => {
    setMatrix(about.length === 0 ? null : await post<AccessJson>(PATH, { tasks: about }));
    setTasks(about);
    setOpened(null);
    setProblem(null);
  };
  const askPasted = async () => {
    const read = tasksOf(text);
    if (read instanceof ApiError) return setProblem(read);
    setPage(null);
    await ask(read).catch(setProblem);
  };
  const askRegistry = async (from: number) => {
    try {
      const found = await registryTasks(from);
      setPage(found);
      await ask(found.tasks);
    } catch (error) {
      setProblem(error as ApiError);
    }
  };
  const open = async (id: string) => {
    try {
      setOpened(await post<AccessServerJson>(PATH, { tasks, server_id: id }));
    } catch (error) {
      setProblem(error as ApiError);
    }
  };
  return (
    <>
      <PageHead title="Access" />
      <div class="field">
        <label for="task-config">Task configs</label>
        <textarea
          id="task-config"
          class="code"
          rows={7}
          spellcheck={false}
          placeholder={example}
          aria-describedby="task-config-hint"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <span class="hint" id="task-config-hint">
          Paste the content of a <code>--task-config</code> file: one task, or a list of tasks. Nothing is stored.
        </span>
      </div>
      <div class="actions">
        <button type="button" class="primary" disabled={text.trim() === ''} onClick={askPasted}>
          Show access
        </button>
        <button type="button" onClick={() => askRegistry(0)}>
          Tasks of the registry
        </button>
      </div>
      {page === null ? null : <Paging page={page} turn={askRegistry} />}
      {problem === null ? null : <Failure error={problem} />}
      {matrix === null ? (
        <Empty title="Access of tasks to servers and tools">
          <p>
            The matrix shows whether a task may use a server, and the layer and pattern that decide. Open a server to
            see its tools. The evaluation is the same as in <code>spear explain</code>.
          </p>
        </Empty>
      ) : (
        <Matrix matrix={matrix} open={open} />
      )}
      {opened === null ? null : <OpenedServer server={opened} show={setShown} close={() => setOpened(null)} />}
      {shown === null ? null : (
        <Dialog title={shown.title} onClose={() => setShown(null)}>
          <Walk shown={shown} />
        </Dialog>
      )}
    </>
  );
}

function Paging({ page, turn }: { readonly page: TaskPage; readonly turn: (from: number) => void }) {
  const { from, all, tasks } = page;
  if (all === 0) return <p class="muted">The registry has no tasks. Add one with: spear tasks apply FILE</p>;
  return (
    <div class="actions">
      <span class="muted">
        Tasks {from + 1} to {from + tasks.length} of {all}, live revisions
      </span>
      {all <= TASKS_PER_PAGE ? null : (
        <>
          <button type="button" disabled={from === 0} onClick={() => turn(from - TASKS_PER_PAGE)}>
            Previous
          </button>
          <button type="button" disabled={from + tasks.length >= all} onClick={() => turn(from + TASKS_PER_PAGE)}>
            Next
          </button>
        </>
      )}
    </div>
  );
}

function Matrix({ matrix, open }: { readonly matrix: AccessJson; readonly open: (id: string) => void }) {
  const [text, setText] = useState('');
  const usable = matrix.tasks.filter(({ problems }) => problems.length === 0);
  const rows = matrix.servers
    .map((server, at) => ({ ...server, at }))
    .filter(({ server_id: id }) => id.toLowerCase().includes(text.toLowerCase()));
  return (
    <section aria-labelledby="matrix-title">
      <h2 id="matrix-title">
        {counted(usable.length, 'task')} × {counted(matrix.servers.length, 'server')}, revision {matrix.revision}
      </h2>
      {matrix.tasks.map(({ name, problems, warnings }) =>
        [...problems, ...warnings].map((each) => (
          <p key={each} class={problems.length > 0 ? 'notice bad' : 'notice warn'}>
            <strong>
              <UntrustedText text={name} chars={60} />
            </strong>{' '}
            <UntrustedText text={each} chars={600} />
          </p>
        )),
      )}
      {matrix.servers.length === 0 ? <p class="muted">The registry has no servers.</p> : null}
      {usable.length === 0 || matrix.servers.length === 0 ? null : (
        <>
          <div class="filters">
            <input
              type="search"
              placeholder="Search servers"
              aria-label="Search servers in the matrix"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </div>
          <VirtualList
            items={rows}
            rowPx={ROW_PX}
            label="Access"
            rowClass="access-row"
            keyOf={({ server_id: id }) => id}
            head={
              <>
                <span role="columnheader">Server</span>
                {usable.map(({ name }) => (
                  <span role="columnheader" key={name}>
                    <UntrustedText text={name} chars={40} />
                  </span>
                ))}
              </>
            }
            row={({ server_id: id, tools, at }) => (
              <>
                <span role="cell" class="stack">
                  <button type="button" class="link" onClick={() => open(id)}>
                    <UntrustedText text={id} chars={80} />
                  </button>
                  <span class="muted">{tools === null ? 'tools unknown' : counted(tools, 'tool')}</span>
                </span>
                {usable.map(({ name, cells }) => {
                  const cell = cells[at];
                  return cell === undefined ? null : (
                    <span role="cell" key={name} class="stack">
                      <Decision decision={cell} />
                      <span class="muted clip">
                        {cell.allowed && tools !== null ? `${cell.tools_allowed} of ${tools} tools · ` : ''}
                        <By decision={cell} />
                      </span>
                    </span>
                  );
                })}
              </>
            )}
          />
        </>
      )}
    </section>
  );
}

function OpenedServer(props: { server: AccessServerJson; show: (shown: Shown) => void; close: () => void }) {
  const { server, show } = props;
  const { tools, tasks } = server;
  return (
    <section aria-labelledby="opened-title">
      <header class="page-head">
        <h2 id="opened-title">
          Tools of <UntrustedText text={server.server_id} chars={80} />
        </h2>
        <div class="actions">
          {tasks.map(({ name, walk }) => (
            <button
              type="button"
              key={name}
              onClick={() => show({ title: `${server.server_id} for ${name}`, walk, approval: [] })}
            >
              Policy evaluation for <UntrustedText text={name} chars={30} />
            </button>
          ))}
          <button type="button" class="quiet" onClick={props.close}>
            Close
          </button>
        </div>
      </header>
      {tools === null ? (
        <Empty title="Tools unknown">
          <p>
            No node has listed the tools of this server yet. The matrix shows the access of each task to the server.
          </p>
        </Empty>
      ) : (
        <VirtualList
          items={tools.map((tool, at) => ({ ...tool, at }))}
          rowPx={ROW_PX}
          label="Access to tools"
          rowClass="access-row"
          keyOf={({ name }) => name}
          head={
            <>
              <span role="columnheader">Tool</span>
              {tasks.map(({ name }) => (
                <span role="columnheader" key={name}>
                  <UntrustedText text={name} chars={40} />
                </span>
              ))}
            </>
          }
          row={({ name: tool, at }) => (
            <>
              <span role="cell" class="clip">
                <code>
                  <UntrustedText text={tool} chars={80} />
                </code>
              </span>
              {tasks.map(({ name, cells }) => {
                const cell = cells[at];
                return cell === undefined ? null : (
                  <span role="cell" key={name} class="stack">
                    <button
                      type="button"
                      class="link"
                      onClick={() => show({ title: `${tool} for ${name}`, walk: cell.walk, approval: cell.approval })}
                    >
                      <Decision decision={cell} />
                    </button>
                    <span class="muted clip">
                      <By decision={cell} />
                      {cell.approval.length > 0 && cell.allowed ? ' · needs approval' : ''}
                    </span>
                  </span>
                );
              })}
            </>
          )}
        />
      )}
    </section>
  );
}

function Decision({ decision: { allowed } }: { readonly decision: DecisionJson }) {
  return <span class={allowed ? 'verdict yes' : 'verdict no'}>{allowed ? 'allowed' : 'denied'}</span>;
}

function By({ decision: { by } }: { readonly decision: DecisionJson }) {
  if (by === null) return <>no rule denies it</>;
  return (
    <>
      <UntrustedText text={`${by.layer} ${by.rule}`} chars={80} />
      {by.matched === null ? '' : ' '}
      {by.matched === null ? null : (
        <code>
          <UntrustedText text={by.matched} chars={60} />
        </code>
      )}
    </>
  );
}

function Walk({ shown }: { readonly shown: Shown }) {
  return (
    <>
      <ol class="walk">
        {shown.walk.map(({ layer, rule, verdict, text, fix }) => (
          <li key={`${layer} ${rule}`} class={verdict}>
            <strong>
              <UntrustedText text={`${layer} ${rule}`} chars={80} />
            </strong>{' '}
            <span class="muted">{verdict}</span>
            <p>
              <UntrustedText text={text} chars={600} />
            </p>
            {fix === null ? null : (
              <p class="fix">
                To change this: <UntrustedText text={fix} chars={600} />
              </p>
            )}
          </li>
        ))}
      </ol>
      {shown.approval.map((note) => (
        <p key={note} class="notice warn">
          <UntrustedText text={note} chars={600} />
        </p>
      ))}
    </>
  );
}

/** Parses one config or a list of configs. */
function tasksOf(text: string): readonly TaskQuestion[] | ApiError {
  const value = parseJson(text);
  const list = Array.isArray(value) ? value : [value];
  const tasks = list.map((each, at) => {
    if (!isJsonObject(each)) return null;
    const name = typeof each.name === 'string' ? each.name : `task ${at + 1}`;
    return { name: name.slice(0, 100), config: each };
  });
  if (tasks.length > 0 && tasks.every((task) => task !== null)) return tasks;
  return new ApiError(
    400,
    'invalid-json',
    'expected a JSON object or a list of JSON objects; paste the content of a task file',
  );
}

/** A task in an access query. */
export interface TaskQuestion {
  readonly name: string;
  readonly config: JsonObject;
}

/** One page of the stored tasks, with their live revisions. */
export interface TaskPage {
  readonly tasks: readonly TaskQuestion[];
  readonly from: number;
  readonly all: number;
}

/** Limit of the registry per access query. */
export const TASKS_PER_PAGE = 20;

const TASKS_PATH = '/admin/api/tasks';

interface ListedTask {
  readonly namespace: string;
  readonly name: string;
  readonly live: number;
}

export async function registryTasks(from: number): Promise<TaskPage> {
  const { tasks: listed } = await get<{ tasks: readonly ListedTask[] }>(TASKS_PATH);
  const tasks = await Promise.all(listed.slice(from, from + TASKS_PER_PAGE).map(asked));
  return { tasks, from, all: listed.length };
}

async function asked({ namespace, name, live }: ListedTask): Promise<TaskQuestion> {
  const { all } = await get<{ all: readonly TaskRevision[] }>(`${TASKS_PATH}/${namespace}/${name}`);
  const { config = {} } = all.find(({ revision }) => revision === live) ?? {};
  return { name: `${namespace}/${name}@${live}`, config: { namespace, config } };
}
