/** Environment of this process. Read only here; other code receives it as a parameter. */
export const processEnvironment: NodeJS.ProcessEnv = process.env;
