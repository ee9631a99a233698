/** The environment of this process: read here, and handed to whatever needs a part of it. */
export const processEnvironment: NodeJS.ProcessEnv = process.env;
