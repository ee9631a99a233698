import type { ComponentChildren } from 'preact';
import { Access } from './pages/access.tsx';
import { ApprovalPage, Approvals } from './pages/approvals.tsx';
import { Trail } from './pages/audit.tsx';
import { Nodes } from './pages/nodes.tsx';
import { Overview } from './pages/overview.tsx';
import { People } from './pages/people.tsx';
import { Profiles } from './pages/profiles.tsx';
import { Run } from './pages/run.tsx';
import { Runs } from './pages/runs.tsx';
import { Server } from './pages/server.tsx';
import { EditServer, NewServer } from './pages/server-edit.tsx';
import { Servers } from './pages/servers.tsx';
import { Empty, PageHead } from './parts.tsx';

interface Place {
  readonly path: string;
  readonly title: string;
  /** `rest`: the part of the address after the path. */
  readonly show: (rest: readonly string[]) => ComponentChildren;
}

/** All pages, in the order of the menu. */
export const navigation: readonly Place[] = [
  { path: 'overview', title: 'Overview', show: () => <Overview /> },
  {
    path: 'approvals',
    title: 'Approvals',
    show: ([id = '']) => (id === '' ? <Approvals /> : <ApprovalPage key={id} id={id} />),
  },
  { path: 'runs', title: 'Runs', show: ([id = '']) => (id === '' ? <Runs /> : <Run key={id} id={id} />) },
  { path: 'servers', title: 'Servers', show: showServers },
  { path: 'profiles', title: 'Profiles', show: () => <Profiles /> },
  { path: 'access', title: 'Access', show: () => <Access /> },
  { path: 'nodes', title: 'Nodes', show: () => <Nodes /> },
  { path: 'people', title: 'Users', show: () => <People /> },
  { path: 'audit', title: 'Audit log', show: () => <Trail /> },
];

function showServers([id = '', action = '']: readonly string[]): ComponentChildren {
  if (id === '') return action === 'new' ? <NewServer /> : <Servers key={action} filter={action} />;
  return action === 'edit' ? <EditServer key={id} id={id} /> : <Server key={id} id={id} />;
}

export function pageOf([name = '', ...rest]: readonly string[]): ComponentChildren {
  const place = navigation.find(({ path }) => path === (name === '' ? 'overview' : name));
  if (place !== undefined) return place.show(rest);
  return (
    <>
      <PageHead title="Page not found" />
      <Empty title="There is no page at this address">
        <p>
          Go to the <a href="#/overview">overview</a>.
        </p>
      </Empty>
    </>
  );
}
